#include "hostile.h"
int main(void) { /* many processes that share what they have: slow to end, page by page */
    size_t size = (size_t)40 << 20;
    char *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 1, size);
    for (int i = 0; i < 28; i++)
        if (fork() == 0) {
            volatile char sum = 0;
            for (size_t at = 0; at < size; at += 4096) sum = (char)(sum + shared[at]);
            pause();
        }
    for (;;) pause();
}
