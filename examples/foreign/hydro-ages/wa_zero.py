birth, death = map(int, input().split())
print(death - birth)
