import os

for place in ("/scratch", "/tmp", "/dev/shm"):
    os.chdir(place)
    for name in ("n" * 255, "a\nb", "-rf", " ", "*", b"\xff\xfe", "ä" * 127, "hostile-mark"):
        open(name, "w").close()
    os.mkfifo("pipe")
    os.symlink("/etc/shadow", "link")
    os.symlink("loop", "loop")
    os.mkdir("closed")
    open("closed/file", "w").close()
    os.chmod("closed", 0)
    for _ in range(4000):
        os.mkdir("d")
        os.chdir("d")
    os.chmod(".", 0)
print("safe")
