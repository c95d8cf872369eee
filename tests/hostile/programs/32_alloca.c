#include "hostile.h"
int main(void) {
    volatile char *huge = __builtin_alloca((size_t)1 << 32);
    huge[0] = 1;
    return huge[0] == 1 ? finish() : 1;
}
