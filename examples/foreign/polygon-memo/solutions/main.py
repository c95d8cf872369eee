what, word = input().split()
print(f"x{int(word):x}" if what == "write" else int(word[1:], 16))
