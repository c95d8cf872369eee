#include "hostile.h"
int main(void) {
    static char buffer[1 << 20];
    int zero = open("/dev/zero", O_RDONLY);
    for (;;)
        if (read(zero, buffer, sizeof buffer) < 0) return 1;
}
