#include "hostile.h"
#include <sys/inotify.h>
#include <sys/uio.h>
int main(void) {
    int shared = open("/usr/bin/env", O_RDONLY);
    uint64_t hint = 3, range[2] = {0, 4096}, found[8];
    char byte;
    struct iovec one = {&byte, 1};
    REFUSED(inotify_init());
    REFUSED(inotify_init1(IN_NONBLOCK));
    REFUSED(inotify_add_watch(0, "/usr/bin/env", IN_OPEN));
    for (int command = 1035; command <= 1038; command++) /* F_GET_RW_HINT to F_SET_FILE_RW_HINT */
        REFUSED(fcntl(shared, command, &hint));
    REFUSED(syscall(451, shared, range, found, 0)); /* cachestat */
    REFUSED(preadv2(shared, &one, 1, 0, 8));        /* RWF_NOWAIT: only what is in the page cache */
    struct stat before, after;
    stat("/usr/bin/printf", &before);
    int other = open("/usr/bin/printf", O_RDONLY);
    if (shared < 0 || other < 0 || read(other, &byte, 1) != 1) return 1;
    stat("/usr/bin/printf", &after);
    if (before.st_atime != after.st_atime) dprintf(1, "the time of the last access is kept\n");
    return finish();
}
