c, n = map(int, input().split())
w = list(map(int, input().split()))
taken = []
for weight, index in sorted(((w[i], i + 1) for i in range(n)), reverse=True):
    if weight <= c:
        c -= weight
        taken.append(index)
print(*taken)
