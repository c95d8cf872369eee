"""No loops; half of the points for a source longer than so many bytes."""

import re
import sys
from pathlib import Path

language, entry, feedback, limit = sys.argv[1:]
# A submission may have folders.
source = b"\n".join(path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file())
if re.search(rb"\b(for|while)\b", source):
    Path(feedback + "teammessage.txt").write_text(f"{entry} has a loop\n")
    sys.exit(43)
Path(feedback + "score_multiplier.txt").write_text("1" if len(source) <= int(limit) else "0.5")
sys.exit(42)
