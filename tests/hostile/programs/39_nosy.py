import os
import sys

# In two halves, so that it is not in this file: what the files of the host are marked with.
NEEDLE = b"CANARY" + b"-"
found = []
for name in ("@SECRET@", "@VICTIM@", "@ANSWER@", "/etc/shadow", "/etc/gshadow", "/etc/judge", "/root", "/home",
             "/var/lib/dpkg", "/var/lib/judge", "/var/log", "/var/cache", "/var/tmp", "/var/spool", "/run", "/sys", "/srv", "/opt", "/mnt", "/boot", "/etc/ssh", "/etc/hostname", "/etc/resolv.conf", "/proc/kcore",
             "/proc/1/root/etc", "/proc/self/root/etc/shadow", "/.dockerenv", "/oldroot", "/newroot"):
    try:
        os.listdir(name) if os.path.isdir(name) else open(name, "rb").read(100)
        found.append(name)
    except OSError:
        pass
# Empty directories above the list of GHC's libraries, of the container's own.
for folder, known in (("/var", ["lib"]), ("/var/lib", ["ghc"])):
    if os.path.isdir(folder) and os.listdir(folder) != known:
        found.append(folder)
for folder, folders, files in os.walk("/"):
    folders[:] = [one for one in folders if os.path.join(folder, one) not in ("/usr", "/proc/self/task", "/proc/thread-self")]
    for one in files:
        path = os.path.join(folder, one)
        if os.path.isfile(path) and not path.endswith(("kmsg", "kpagecount", "kpageflags", "kpagecgroup")):
            try:
                with open(path, "rb") as file:
                    data = file.read(1 << 16)
            except OSError:
                continue
            if NEEDLE in data:
                found.append(path)
                sys.stdout.buffer.write(data)
if NEEDLE in b"".join(k + v for k, v in os.environb.items()):
    found.append("environment")
print("got through", found) if found else print("safe")
