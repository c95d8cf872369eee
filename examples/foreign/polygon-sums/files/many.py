"""Writes two tests, as files of their numbers."""

import sys
from pathlib import Path

for name in sys.argv[2:]:
    count = int(sys.argv[1]) * int(name)
    Path(name).write_text(f"{count}\n{' '.join(map(str, range(1, count + 1)))}\n", encoding="ascii")
