"""No loops; half of the points for a source longer than so many bytes."""

import re
import sys
from pathlib import Path

language, entry, feedback, limit = sys.argv[1:]
source = b"".join(path.read_bytes() for path in Path().iterdir())
if re.search(rb"\b(for|while)\b", source):
    Path(feedback + "teammessage.txt").write_text(f"{entry} has a loop\n")
    sys.exit(43)
Path(feedback + "score_multiplier.txt").write_text("1" if len(source) <= int(limit) else "0.5")
sys.exit(42)
