#include "hostile.h"
int main(void) {
    for (int i = 0; i < 200; i++) {
        char *part = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(part, i + 1, 1 << 20);
        madvise(part, 1 << 20, 21); /* MADV_PAGEOUT */
    }
    return finish();
}
