#include "hostile.h"
#include <dirent.h>
/* What a process may change of itself in /proc, beginning with how soon it is to die when memory runs out. */
static void write_to(const char *path, const char *text) {
    int fd = open(path, O_RDWR);
    if (fd < 0) fd = open(path, O_WRONLY | O_TRUNC);
    if (fd < 0) return;
    dprintf(1, "opened for writing: %s\n", path);
    through = 1;
    (void)!write(fd, text, strlen(text));
    close(fd);
}
static void walk(const char *directory, int depth) {
    DIR *all = opendir(directory);
    for (struct dirent *one; all && (one = readdir(all));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", directory, one->d_name);
        struct stat st;
        if (one->d_name[0] == '.' || lstat(path, &st) < 0) continue;
        if (S_ISREG(st.st_mode)) write_to(path, "0");
        if (S_ISDIR(st.st_mode) && depth && strcmp(one->d_name, "fd") && strcmp(one->d_name, "map_files")) walk(path, depth - 1);
    }
    if (all) closedir(all);
}
int main(void) {
    static const char *names[] = {"oom_score_adj", "oom_adj", "clear_refs", "coredump_filter", "timerslack_ns", "comm", "loginuid",
                                  "setgroups", "uid_map", "gid_map", "projid_map", "timens_offsets", "mem", "autogroup", "sched",
                                  "make-it-fail", "attr/current", "attr/exec", "attr/fscreate", "attr/keycreate", "latency", "pagemap"};
    char path[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "/proc/self/%s", names[i]);
        write_to(path, "1");
        snprintf(path, sizeof path, "/proc/thread-self/%s", names[i]);
        write_to(path, "1");
    }
    walk("/proc/self", 3);
    DIR *proc = opendir("/proc"); /* nothing of the host: no cmdline, locks, diskstats, config.gz, stat, meminfo, sys … */
    for (struct dirent *one; proc && (one = readdir(proc));)
        if (one->d_name[0] > '9' && strcmp(one->d_name, "self") && strcmp(one->d_name, "thread-self")) {
            dprintf(1, "shown: /proc/%s\n", one->d_name);
            through = 1;
        }
    static const char *hidden[] = {"cmdline", "locks", "diskstats", "config.gz", "stat", "loadavg", "meminfo", "vmstat", "interrupts",
                                   "sys", "sys/kernel/ns_last_pid", "sys/kernel/random/boot_id", "pressure", "keys", "uptime", "swaps"};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        snprintf(path, sizeof path, "/proc/%s", hidden[i]);
        REFUSED(open(path, O_RDONLY));
    }
    return finish();
}
