import os
import sys

given = sys.stdin.readline().strip()
through = []
for attempt in (
    lambda: os.write(os.open("/proc/self/fd/0", os.O_RDWR), b"forged"),
    lambda: os.write(os.open("/dev/stdin", os.O_WRONLY | os.O_APPEND), b"forged"),
    lambda: os.open("/proc/self/fd/0", os.O_WRONLY | os.O_TRUNC),
    lambda: os.write(0, b"forged"),
    lambda: os.ftruncate(0, 0),
    lambda: os.truncate("/proc/self/fd/0", 0),
    lambda: os.posix_fallocate(os.open("/proc/self/fd/0", os.O_RDWR), 0, 1 << 20),
    lambda: os.fchmod(0, 0),
    lambda: os.unlink("/proc/self/fd/0"),
    lambda: os.unlink(os.readlink("/proc/self/fd/0").split(" ")[0]),
):
    try:
        attempt()
        through.append(attempt)
    except OSError:
        pass
print(given, "got through" if through else "safe")
