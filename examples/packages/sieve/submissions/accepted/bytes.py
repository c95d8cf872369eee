n = int(input())
prime = bytearray([0, 0]) + bytearray(b"\1" * (n - 1))
for k in range(2, int(n**0.5) + 1):
    prime[k * k :: k] = bytes(len(range(k * k, n + 1, k)))
print(sum(prime))
