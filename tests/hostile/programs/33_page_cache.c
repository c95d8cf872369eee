#include "hostile.h"
int main(void) { /* what it reads of the host's files is the machine's cache, not the program's memory */
    static char block[1 << 20];
    size_t total = 0;
    FILE *list = popen("find /usr/lib /usr/bin -type f -size +2000k 2>/dev/null", "r");
    char path[4096];
    while (total < ((size_t)96 << 20) && list && fgets(path, sizeof path, list)) {
        path[strcspn(path, "\n")] = 0;
        int fd = open(path, O_RDONLY);
        if (fd < 0) continue;
        for (ssize_t got; (got = read(fd, block, sizeof block)) > 0;) total += (size_t)got;
        close(fd);
    }
    return finish();
}
