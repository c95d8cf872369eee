what, word = input().split()
print("m" if what == "write" else 42)
