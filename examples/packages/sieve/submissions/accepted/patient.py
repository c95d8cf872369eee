import time

n = int(input())
prime = bytearray([0, 0]) + bytearray(b"\1" * (n - 1))
for k in range(2, int(n**0.5) + 1):
    prime[k * k :: k] = bytes(len(range(k * k, n + 1, k)))
while time.process_time() < 0.2:  # accepted, and no measure of how long it should take
    pass
print(sum(prime))
