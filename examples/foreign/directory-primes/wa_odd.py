n = int(input())
print(sum(k % 2 for k in range(2, n + 1)))
