#include "hostile.h"
int main(void) {
    size_t size = (size_t)1 << 30;
    volatile char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return 1;
    for (size_t at = 0; at < size; at += 4096) {
        map[at] = 1;
        if (at % (4 << 20) == 0) usleep(1000);
    }
    return finish();
}
