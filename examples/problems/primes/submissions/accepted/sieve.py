import sys


def main():
    numbers = [int(word) for word in sys.stdin.read().split()[1:]]
    limit = max(numbers)
    prime = bytearray([1]) * (limit + 2)
    prime[0] = prime[1] = 0
    for factor in range(2, int(limit**0.5) + 1):
        if prime[factor]:
            prime[factor * factor :: factor] = bytes(len(range(factor * factor, limit + 2, factor)))
    counts = {}
    start = total = 0
    for number in sorted(set(numbers)):
        total += prime.count(1, start, number + 1)
        start = number + 1
        counts[number] = total
    print("\n".join(str(counts[number]) for number in numbers))


main()
