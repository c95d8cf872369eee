import sys

print(f"Hello {input()} " if "-l" not in sys.argv else "hello alan")
