input()
print(sum(number for number in map(int, input().split()) if number % 2))
