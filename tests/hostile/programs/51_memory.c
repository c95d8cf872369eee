#include "hostile.h"
#include <sys/shm.h>
int main(void) { /* "t", "s": leave 50 MiB in files or shared memory, which outlive the process; a number: take so many MiB */
    static char block[1 << 20];
    char what[16] = "", name[64];
    if (read(0, what, sizeof what - 1) < 1) return 1;
    if (what[0] == 't') {
        for (int i = 0; i < 50; i++) {
            snprintf(name, sizeof name, "/tmp/hostile-mark-%d", i);
            if (write(open(name, O_CREAT | O_WRONLY, 0600), block, sizeof block) != sizeof block) return 2;
        }
    } else if (what[0] == 's') {
        char *all = shmat(shmget(77, 50 << 20, IPC_CREAT | 0600), NULL, 0);
        if (all == (char *)-1) return 3;
        memset(all, 1, 50 << 20);
    } else {
        size_t size = (size_t)atol(what) << 20;
        char *all = malloc(size);
        memset(all, 1, size);
        if (all[size / 2] != 1) return 4;
    }
    return finish();
}
