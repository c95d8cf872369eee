input()
numbers = [int(word) for word in input().split()]
print(max(after - before for before, after in zip(numbers, numbers[1:])))
