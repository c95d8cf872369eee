"""`half POINTS`: all of the points when half of the results are accepted. `all`: the sum of the scores."""

import sys

rows = [line.split() for line in sys.stdin]
good = sum(verdict == "AC" for verdict, _ in rows)
if sys.argv[1] == "half":
    passed = 2 * good >= len(rows)
    print("AC" if passed else "WA", float(sys.argv[2]) if passed else 0)
else:
    print("AC" if good else "WA", sum(float(score) for _, score in rows))
