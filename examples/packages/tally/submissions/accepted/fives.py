fives, rest = divmod(int(input()), 5)
print(*["/////"] * fives, "/" * rest)
