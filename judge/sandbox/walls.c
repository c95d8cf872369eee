/*
 * What the container's process 1 puts between runs and what they would share, with the host or with one another:
 * devices, /proc, the counter of process ids. agent.c calls it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent.h"

static int proc_fd = -1, pid_fd = -1;

/*
 * The nodes are the host's own inodes: on a read-only mount, nobody can put a time stamp or a mode on them, and a device
 * can still be written to. There are no terminals: their buffers would be in nobody's account, and their time stamps
 * would outlive the run.
 */
void close_devices(void) {
    struct dirent *entry;
    struct statvfs mounted;
    struct stat node;
    if (umount2("/dev/pts", MNT_DETACH) < 0) die("unmount /dev/pts");
    DIR *dev = opendir("/dev");
    if (!dev || chdir("/dev") < 0) die("/dev");
    while ((entry = readdir(dev))) {
        if (lstat(entry->d_name, &node) < 0 || !S_ISCHR(node.st_mode)) continue;
        if (statvfs(entry->d_name, &mounted) < 0) die(entry->d_name);
        unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID;
        if (mounted.f_flag & ST_NOEXEC) flags |= MS_NOEXEC; /* where the host has it, it may not be taken away */
        if (mount(NULL, entry->d_name, NULL, flags, NULL) < 0) die(entry->d_name);
    }
    closedir(dev);
    if (chdir("/") < 0) die("/");
    if (mount(NULL, "/dev", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID, NULL) < 0) die("remount /dev");
}

/*
 * The one that bwrap has mounted stays below, for process 1. Runs see another: nothing but their own processes, and
 * nothing that can be written.
 */
void cover_proc(void) {
    proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc_fd < 0) die("/proc");
    umount2("/proc/sys", MNT_DETACH); /* bwrap's read-only cover */
    /* A kernel without CONFIG_CHECKPOINT_RESTORE has no such file; judge.sandbox.check tells. */
    pid_fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, "hidepid=2,subset=pid") < 0)
        die("mount /proc");
}

int open_proc(const char *path, int flags) { return openat(proc_fd, path, flags | O_CLOEXEC); }

void rewind_pids(char last) {
    if (pid_fd >= 0 && pwrite(pid_fd, &last, 1, 0) < 0) die("ns_last_pid");
}
