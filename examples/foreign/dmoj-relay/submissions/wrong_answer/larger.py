which, one, other = map(int, input().split())
print(max(one, other))
