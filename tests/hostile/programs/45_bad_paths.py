import os

for path in ("/dev/full", "x" * 5000, "/" * 4095, "\udcff\udcfe", "a/" * 2000, "/proc/self/fd/99999", "/scratch/" + "é" * 130, "", "\n",
             "/box/main.py/x", "/dev/fd/1/x", "%s%n%x", "/proc/self/task/../../../etc"):
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT, os.O_DIRECTORY, os.O_PATH | os.O_NOFOLLOW):
        try:
            fd = os.open(path, flags)
            os.write(fd, b"x" * 10)
        except OSError:
            pass
try:
    open("/dev/full", "w").write("x" * 100000)
except OSError:
    pass
print("safe")
