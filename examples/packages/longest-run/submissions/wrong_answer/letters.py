word = input()
print(max(map(word.count, word)))
