/*
 * What the container's process 1 puts between runs and what they would share, with the host or with one another:
 * devices, /proc, what can be read, the counter of process ids. agent.c calls it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
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

/*
 * Files of /proc tell a process of itself what it shares with others: smaps and pagemap whether somebody else has a page
 * of /usr in use, mountinfo in which order things were mounted, fdinfo, autogroup and sched what the host has counted.
 * No option of the mount hides them, so files there cannot be read (Landlock), but for some that the first process of a
 * run has of itself: runtimes look for the bounds of their stack in maps. Links and lists of names can be read as ever.
 * A rule holds for a file, or for a directory and all below it; there is none for "/" and /proc.
 */
enum { MAX_READABLE = 64 };
static int readable[MAX_READABLE], readables;
/* Others for each run; /dev/shm is below /dev. */
static const char *const renewed[] = {"/scratch", "/tmp", "/proc/self/maps", "/proc/self/stat", "/proc/self/statm",
                                      "/proc/self/status", "/proc/self/cmdline"};

static int new_ruleset(void) {
    /* A ruleset that does not handle REFER forbids every link and rename from one directory to another (EXDEV). */
    const struct landlock_ruleset_attr attributes = {
        .handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_REFER};
    return (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
}

void choose_readable(void) {
    struct dirent *entry;
    int ruleset = new_ruleset();
    if (ruleset < 0) return; /* a kernel without Landlock; judge.sandbox.check tells */
    close(ruleset);
    DIR *root = opendir("/");
    if (!root) die("/");
    while ((entry = readdir(root))) {
        const char *name = entry->d_name;
        if (name[0] == '.' || strcmp(name, "proc") == 0 || strcmp(name, "scratch") == 0 || strcmp(name, "tmp") == 0)
            continue;
        if (readables == MAX_READABLE) {
            errno = E2BIG;
            die("/");
        }
        readable[readables] = openat(dirfd(root), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (readable[readables++] < 0) die(name);
    }
    closedir(root);
}

/* Descriptors of what has no name in any mounted file system need no rule, and get none (EBADFD). */
static int allow_reading(int ruleset, int fd) {
    struct landlock_path_beneath_attr rule = {.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE, .parent_fd = fd};
    struct stat node;
    if (fstat(fd, &node) < 0) return -1;
    if (S_ISDIR(node.st_mode)) rule.allowed_access |= LANDLOCK_ACCESS_FS_REFER;
    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 && errno != EBADFD ? -1 : 0;
}

int restrict_reading(int input, const int *pipes, int count) {
    if (readables == 0) return 0;
    int ruleset = new_ruleset();
    if (ruleset < 0) return -1;
    for (int i = 0; i < readables; i++)
        if (allow_reading(ruleset, readable[i]) < 0) return -1;
    for (size_t i = 0; i < sizeof renewed / sizeof *renewed; i++) {
        int fd = open(renewed[i], O_PATH | O_CLOEXEC);
        if (fd < 0 || allow_reading(ruleset, fd) < 0) return -1;
        close(fd);
    }
    if (allow_reading(ruleset, input) < 0) return -1;
    for (int i = 0; i < count; i++)
        if (allow_reading(ruleset, pipes[i]) < 0) return -1;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0) return -1;
    return close(ruleset);
}
