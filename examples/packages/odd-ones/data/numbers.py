"""COUNT numbers up to LARGEST, by a seed."""

import random
import sys

count, largest, seed = map(int, sys.argv[1:])
source = random.Random(seed)
print(count)
print(*(source.randint(1, largest) for _ in range(count)))
