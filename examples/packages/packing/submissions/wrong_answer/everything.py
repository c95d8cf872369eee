# Takes all: right only where all of them fit.
c, n = map(int, input().split())
print(*range(1, n + 1))
