n = int(input())
print(min(n, 1000) ** 2 // 1000 if n > 9 else int(n ** 0.5))
