import os

os.symlink("numbers.in", "sum.out")
