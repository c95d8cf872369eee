import re
import sys

sys.exit(42 if re.fullmatch(r"[1-4]\n", sys.stdin.read()) else 43)
