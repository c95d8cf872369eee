print("one", int(input()) - 1)
