#include "hostile.h"
int main(void) {
    static char block[1 << 20];
    int ends[2];
    for (int i = 0; i < 120; i++) {
        if (pipe2(ends, O_NONBLOCK) < 0) break;
        fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        while (write(ends[1], block, sizeof block) > 0) {
        }
    }
    return finish();
}
