import os

through = []
MARK = "hostile-mark"
for place in ("/", "/bin", "/box", "/dev", "/dev/pts", "/etc", "/etc/alternatives", "/lib", "/proc", "/proc/self", "/proc/sys/kernel",
              "/proc/1", "/usr", "/usr/bin", "/usr/lib", "/home", "/root", "/var/tmp", "/run", "/sys", os.path.dirname("@VICTIM@")):
    for attempt in (lambda p: open(p, "w"), lambda p: os.mkdir(p), lambda p: os.symlink("x", p), lambda p: os.mkfifo(p),
                    lambda p: os.link("/proc/self/exe", p), lambda p: os.mknod(p)):
        try:
            attempt(os.path.join(place, MARK))
            through.append(place)
        except OSError:
            pass
for path in ("@VICTIM@", "/etc/passwd", "/etc/hosts", "/bin/sh", "/usr/bin/env", "/box/main.py", "/proc/sys/kernel/hostname",
             "/proc/1/oom_score_adj", "/proc/sysrq-trigger", "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda"):
    for attempt in (lambda p: os.open(p, os.O_WRONLY), lambda p: os.open(p, os.O_RDWR | os.O_TRUNC), os.unlink,
                    lambda p: os.rename(p, p + "x"), lambda p: os.chmod(p, 0o777), lambda p: os.truncate(p, 0),
                    lambda p: os.utime(p), lambda p: os.chown(p, 1000, 1000)):
        try:
            attempt(path)
            through.append(path)
        except OSError:
            pass
print("got through", through) if through else print("safe")
