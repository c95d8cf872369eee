"""Writes the secret tests of this problem: `python3 generators/generate.py` in the package's folder."""

import random
import statistics
from pathlib import Path


def main() -> None:
    """One reading, all equal, negative ones, a cold wave, and as many as allowed."""
    source = random.Random(3)
    tests = {
        "01_one": [-3.5],
        "02_equal": [21.25] * 24,
        "03_freezing": [source.uniform(-80, -1) for _ in range(100)],
        "04_year": [10 + source.gauss(0, 8) for _ in range(365)],
        "05_longest": [source.uniform(-80, 80) for _ in range(2000)],
    }
    for name, readings in tests.items():
        texts = [f"{reading:.2f}" for reading in readings]
        values = [float(text) for text in texts]
        Path(f"data/secret/{name}.in").write_text(f"{len(texts)}\n{' '.join(texts)}\n")
        answer = f"{statistics.fmean(values):.9f} {statistics.pstdev(values):.9f}\n"
        Path(f"data/secret/{name}.ans").write_text(answer)


main()
