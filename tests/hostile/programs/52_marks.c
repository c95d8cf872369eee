#include "hostile.h"
#include <dirent.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
/* A mark on an inode of the host outlives the submission. Everything that can be reached is tried: by name and by descriptor. */
static void mark(const char *path) {
    struct timespec times[2] = {{1, 1}, {1, 1}}, now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    struct stat st;
    if (lstat(path, &st) < 0 || S_ISLNK(st.st_mode)) return;
    int through_before = through;
    REFUSED(utimensat(AT_FDCWD, path, times, 0));
    REFUSED(utimensat(AT_FDCWD, path, now, 0));
    REFUSED(utimensat(AT_FDCWD, path, NULL, 0));
    REFUSED(chmod(path, st.st_mode & 07777));
    REFUSED(chown(path, getuid(), -1));
    REFUSED(setxattr(path, "user.mark", "x", 1, 0));
    REFUSED(link(path, "/dev/hostile-mark"));
    for (int mode = O_RDONLY; mode <= O_RDWR; mode++) {
        int fd = open(path, mode | O_NONBLOCK | O_NOCTTY);
        if (fd < 0) continue;
        if (mode != O_RDONLY && S_ISREG(st.st_mode)) through = 1;
        REFUSED(futimens(fd, now));
        REFUSED(futimens(fd, NULL));
        REFUSED(fchmod(fd, st.st_mode & 07777));
        REFUSED(fsetxattr(fd, "user.mark", "x", 1, 0));
        if (mode != O_RDONLY) write(fd, "x", 1);
        char byte;
        if (mode != O_WRONLY) read(fd, &byte, 1);
        close(fd);
    }
    struct stat after;
    if (stat(path, &after) < 0 || memcmp(&st.st_mtim, &after.st_mtim, sizeof st.st_mtim) ||
        memcmp(&st.st_ctim, &after.st_ctim, sizeof st.st_ctim) || memcmp(&st.st_atim, &after.st_atim, sizeof st.st_atim))
        through = 1;
    if (through != through_before) dprintf(1, "marked: %s\n", path);
}
static void walk(const char *directory) {
    DIR *all = opendir(directory);
    for (struct dirent *one; all && (one = readdir(all));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", directory, one->d_name);
        int own = !strcmp(one->d_name, "shm") || !strcmp(one->d_name, "tmp") || !strcmp(one->d_name, "scratch");
        if (one->d_name[0] != '.' && !own) mark(path);
    }
    if (all) closedir(all);
}
int main(void) {
    walk("/dev");
    walk("/etc");
    walk("/");
    mark("/dev");
    mark("/usr/bin/env");
    mark("/usr/bin");
    struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    struct stat given;
    if (fstat(0, &given) == 0 && S_ISCHR(given.st_mode)) REFUSED(futimens(0, now)); /* no input: the host's null device */
    int null = open("/dev/null", O_WRONLY), zero = open("/dev/zero", O_RDONLY), full = open("/dev/full", O_WRONLY);
    char bytes[8] = "xxxxxxx";
    if (write(null, "x", 1) != 1 || read(zero, bytes, 8) != 8 || bytes[3] || write(full, "x", 1) != -1 || errno != ENOSPC)
        dprintf(1, "a device does not work\n");
    return finish();
}
