"""So many letters of the first KINDS, by a seed."""

import random
import sys

kinds, length, *seed = map(int, sys.argv[1:])
source = random.Random(*seed)
print("".join(source.choice("ab"[:kinds]) for _ in range(length)))
