"""One number and a newline, from 1 to what --max says."""

import re
import sys

most = int(sys.argv[sys.argv.index("--max") + 1]) if "--max" in sys.argv else 100_000
text = sys.stdin.read()
sys.exit(42 if re.fullmatch(r"[1-9][0-9]{0,5}\n", text) and int(text) <= most else 43)
