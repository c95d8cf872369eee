#include "hostile.h"
int main(void) {
    struct timespec t, begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &t);
    while (t.tv_sec < begin.tv_sec + 1000);
    return finish();
}
