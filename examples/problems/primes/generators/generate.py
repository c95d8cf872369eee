"""Writes the secret tests of this problem: `python3 generators/generate.py` in the package's folder."""

import random
from pathlib import Path

LIMIT = 2_000_000


def counts() -> list[int]:
    """The number of primes up to each number."""
    sieve = bytearray([1]) * (LIMIT + 1)
    sieve[0] = sieve[1] = 0
    for factor in range(2, int(LIMIT**0.5) + 1):
        if sieve[factor]:
            sieve[factor * factor :: factor] = bytes(len(range(factor * factor, LIMIT + 1, factor)))
    total, result = 0, []
    for prime in sieve:
        total += prime
        result.append(total)
    return result


def main() -> None:
    """Small numbers, squares of primes, random ones, and as many big ones as allowed."""
    source = random.Random(2)
    known = counts()
    tests = {
        "01_small": list(range(30)),
        "02_squares": [p * p + d for p in (2, 3, 5, 7, 11, 13, 997, 1409) for d in (-1, 0, 1)],
        "03_random": [source.randint(0, LIMIT) for _ in range(100)],
        "04_biggest": [LIMIT],
        "05_many_big": [source.randint(LIMIT - 1000, LIMIT) for _ in range(200)],
    }
    for name, questions in tests.items():
        lines = [len(questions), *questions]
        Path(f"data/secret/{name}.in").write_text("".join(f"{line}\n" for line in lines))
        Path(f"data/secret/{name}.ans").write_text("".join(f"{known[x]}\n" for x in questions))


main()
