"""A count, and so many numbers."""

import sys

count, *numbers = map(int, sys.stdin.read().split())
sys.exit(42 if 1 <= count <= 1000 and len(numbers) == count else 43)
