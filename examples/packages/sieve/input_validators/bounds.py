import re
import sys

line = sys.stdin.readline()
fine = re.fullmatch(r"[1-9][0-9]{0,5}\n", line) and int(line) <= 100_000 and not sys.stdin.read()
sys.exit(42 if fine else 43)
