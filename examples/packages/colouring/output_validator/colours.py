"""Neighbours must differ; the part of the points is the best number of colours by that of the output."""

import sys
from pathlib import Path

rows = [line.split() for line in Path(sys.argv[1]).read_text().splitlines()]
best = int(Path(sys.argv[2]).read_text())
colours = sys.stdin.buffer.read().split()
if len(colours) != int(rows[0][0]) or any(colours[int(a) - 1] == colours[int(b) - 1] for a, b in rows[1:]):
    sys.exit(43)
Path(sys.argv[3] + "score_multiplier.txt").write_text(str(best / len(set(colours))))
sys.exit(42)
