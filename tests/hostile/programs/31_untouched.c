#include "hostile.h"
int main(void) {
    volatile char *all[64];
    for (int i = 0; i < 64; i++)
        if (!(all[i] = malloc(64 << 20))) return 1;
    return all[63] ? finish() : 1;
}
