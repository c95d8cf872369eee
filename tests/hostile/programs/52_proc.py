import os

through = []
for path in ("mem", "environ", "maps", "cmdline", "auxv", "syscall", "stack", "exe", "root", "cwd", "fd", "fdinfo", "ns", "task/1/mem",
             "map_files", "root/etc/shadow", "cwd/etc"):
    full = f"/proc/1/{path}"
    for attempt in (lambda p: os.open(p, os.O_RDONLY), os.readlink, os.listdir):
        try:
            attempt(full)
            through.append(full)
        except OSError:
            pass
for path in ("/proc/self/exe", "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
             "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/file-max", "/proc/kmsg", "/proc/kcore",
             "/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups", "/proc/self/loginuid", "/proc/irq/default_smp_affinity",
             "/proc/bus/pci", "/proc/timer_list", "/proc/acpi/wakeup", "/proc/sys/user/max_user_namespaces",
             "/proc/sys/kernel/unprivileged_bpf_disabled"):
    try:
        os.write(os.open(path, os.O_WRONLY), b"1")
        through.append(path)
    except OSError:
        pass
try:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")
    through.append("oom_score_adj")
except OSError:
    pass
through += [path for path in ("/sys/fs/cgroup", "/sys/kernel", "/sys", "/proc/keys") if os.path.isdir(path)]
through += [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
print("got through", through) if through else print("safe")
