"""The outcome is how many weights make up the number, which a threshold says is few enough; 0: they do not."""

import sys
from pathlib import Path

number, _, said = (Path(name).read_text(errors="replace").split() for name in sys.argv[1:4])
good = all(word.isascii() and word.isdigit() and len(word) < 9 for word in said)
right = good and sum(map(int, said)) == int(number[0])
print(len(said) if right else 0)
print("translate:success" if right else "translate:wrong", file=sys.stderr)
