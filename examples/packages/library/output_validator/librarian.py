"""Asks for words, and checks each."""

import sys
from pathlib import Path

words = Path(sys.argv[2]).read_text().split()
for number in Path(sys.argv[1]).read_text().split():
    print(number, flush=True)
    if sys.stdin.buffer.readline().split() != [words[int(number) % len(words) - 1].encode()]:
        sys.exit(43)
print(0, flush=True)
sys.exit(43 if sys.stdin.buffer.read().strip() else 42)
