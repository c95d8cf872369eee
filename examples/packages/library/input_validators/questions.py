"""Every question is one about a word of the book, which lies here, too."""

import sys
from pathlib import Path

words = Path("book.txt").read_text().split()
sys.exit(42 if all(1 <= int(number) <= len(words) for number in sys.stdin.read().split()) else 43)
