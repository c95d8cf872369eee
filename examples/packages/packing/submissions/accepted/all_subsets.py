c, n = map(int, input().split())
w = list(map(int, input().split()))
best = max(
    (m for m in range(1 << n) if sum(w[i] for i in range(n) if m >> i & 1) <= c),
    key=lambda m: sum(w[i] for i in range(n) if m >> i & 1),
)
print(*(i + 1 for i in range(n) if best >> i & 1))
