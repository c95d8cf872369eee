import re
import sys

sys.exit(42 if re.fullmatch(r"[a-z]{1,20}\n", sys.stdin.read()) else 43)
