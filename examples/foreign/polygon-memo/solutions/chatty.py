what, word = input().split()
print(word * 30 if what == "write" else int(word))
