#include "hostile.h"
int main(void) { /* in the directory that the input names; "memfd" for files without a name */
    static char block[1 << 20], where[64], name[128];
    ssize_t got = read(0, where, sizeof where - 1);
    if (got < 1) return 1;
    where[strcspn(where, "\n")] = 0;
    memset(block, 1, sizeof block);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "%s/%d", where, i);
        int fd = where[0] == '/' ? open(name, O_CREAT | O_WRONLY, 0600) : (int)syscall(SYS_memfd_create, "m", 0);
        if (fd < 0 || write(fd, block, sizeof block) != sizeof block) return 2;
        if (where[0] == '/') close(fd);
    }
    return finish();
}
