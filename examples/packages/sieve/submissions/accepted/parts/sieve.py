def primes(n):
    """All primes up to n."""
    composite = bytearray(n + 1)
    found = []
    for k in range(2, n + 1):
        if not composite[k]:
            found.append(k)
            composite[k * k :: k] = b"\1" * len(range(k * k, n + 1, k))
    return found
