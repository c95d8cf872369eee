"""First pass: the word backwards, which the next pass gets. Second pass: the word itself.

The word is read from INPUT in both passes: as Kattis has it, that is the test's input in each of them.
"""

import sys
from pathlib import Path

word, feedback = Path(sys.argv[1]).read_bytes().split()[-1:], Path(sys.argv[3])
said = sys.stdin.buffer.read().split()
if (feedback / "backwards").exists():
    sys.exit(42 if said == word else 43)
if said != [letters[::-1] for letters in word]:
    sys.exit(43)
(feedback / "backwards").touch()
(feedback / "nextpass.in").write_bytes(said[0] + b"\n")
sys.exit(42)
