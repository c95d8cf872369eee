#include "hostile.h"
__attribute__((noinline, noclone)) static int deep(volatile char *before, long n) {
    volatile char frame[4096];
    memset((char *)frame, (int)n, sizeof frame);
    return n == 0 ? 0 : deep(frame, n - 1) + frame[5] + before[7];
}
int main(void) {
    volatile char first[16] = {0};
    return deep(first, 1L << 30) == 42 ? finish() : 1;
}
