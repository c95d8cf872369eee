"""The number must be the right one."""

import sys

with open(sys.argv[2], "rb") as file:
    sys.exit(42 if sys.stdin.buffer.read().split() == file.read().split() else 43)
