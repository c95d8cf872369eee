which, one, other = map(int, input().split())
print(one ^ other)
