#include "hostile.h"
int main(void) {
    char name[64];
    int count = 0;
    for (; count < 100000; count++) {
        snprintf(name, sizeof name, "/scratch/hostile-mark-%d", count);
        int fd = open(name, O_CREAT | O_WRONLY, 0600);
        if (fd < 0) break;
        close(fd);
    }
    through = count == 100000;
    return finish();
}
