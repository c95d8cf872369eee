n = int(input())
sieve = [True] * (n + 1)
count = 0
for k in range(2, n + 1):
    if sieve[k]:
        count += 1
        for multiple in range(k * k, n + 1, k):
            sieve[multiple] = False
print(count)
