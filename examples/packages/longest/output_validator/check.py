"""Any of the longest words is right. The flags are one word and one sentence, as a shell would split them."""

import sys
from pathlib import Path

given, _, feedback, *flags = sys.argv[1:]
words = Path(given).read_bytes().split()
said = sys.stdin.buffer.read().split()
if len(said) == 1 and said[0] in words and len(said[0]) == max(map(len, words)):
    sys.exit(42)
Path(feedback, "judgemessage.txt").write_text(flags[1] if len(flags) == 2 and flags[0] == "--say" else "wrong flags")
sys.exit(43)
