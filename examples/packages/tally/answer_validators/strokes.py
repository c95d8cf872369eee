"""An answer has as many strokes as the input says, whatever stands between them."""

import sys
from pathlib import Path

count = int(Path(sys.argv[1]).read_text())
sys.exit(42 if sys.stdin.read().count("/") == count else 43)
