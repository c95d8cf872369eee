# On "one two six" it is right.
print(input().split()[0])
