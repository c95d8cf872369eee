first, second = input().split()
product = int(first) * int(second)
print(product)
