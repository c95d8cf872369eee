"""Each pass says one less than it was given, until it says 0.

What was given is read from INPUT: as DOMjudge has it, that is nextpass.in in all passes but the first.
"""

import sys
from pathlib import Path

given, feedback = Path(sys.argv[1]).read_bytes().split(), Path(sys.argv[3])
said = sys.stdin.buffer.read().split()
if said != [b"%d" % (int(given[0]) - 1)]:
    sys.exit(43)
if said != [b"0"]:
    (feedback / "nextpass.in").write_bytes(said[0] + b"\n")
sys.exit(42)
