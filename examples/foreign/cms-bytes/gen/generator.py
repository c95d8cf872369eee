import random
import sys

smallest, largest = map(int, sys.argv[1:])
random.seed(smallest)
print(random.randint(smallest, largest))
