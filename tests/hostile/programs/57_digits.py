import sys

sys.stdout.write("3." + "1" * 3_000_000 + "e" + "9" * 1_000_000)
