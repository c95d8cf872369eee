#include "hostile.h"
/* Calls whose time grows with a length, and that no signal ends: 40 pieces of memory, and 1.3 TiB to ask about. */
int main(void) {
    const size_t piece = 8 << 20, size = 40 * piece;
    int some = memfd_create("answer", 0), none = memfd_create("range", 0);
    if (some < 0 || none < 0 || ftruncate(some, (off_t)piece) < 0) return 1;
    char *answer = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (size_t at = 0; at < size; at += piece)
        if (mmap(answer + at, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, some, 0) == MAP_FAILED) return 2;
    char *range = mmap(NULL, size * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, none, 0);
    if (range == MAP_FAILED) return 3;
    REFUSED(mincore(range, size * 4096, (unsigned char *)answer));
    if (mincore(range, 4096, (unsigned char *)answer) < 0) return 4;
    answer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int advice = 102; advice <= 103; advice++) REFUSED(madvise(answer, size, advice)); /* MADV_GUARD_… */
    return finish();
}
