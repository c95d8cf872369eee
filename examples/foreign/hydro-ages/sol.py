birth, death = map(int, input().split())
print(death - birth - (birth < 0 < death))
