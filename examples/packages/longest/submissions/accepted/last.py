print(max(reversed(input().split()), key=len))
