import os

# The listing itself has one.
mine = sorted(int(name) for name in os.listdir("/proc/self/fd"))
print("safe" if mine == [0, 1, 2, 3] else f"got through: {mine}")
