import os

os.mkdir("sum.out")
os.chmod("sum.out", 0)
