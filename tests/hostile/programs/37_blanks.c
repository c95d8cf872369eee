#include "hostile.h"
int main(void) { /* the right answer, then blanks up to so many bytes */
    char want[16] = "";
    if (read(0, want, sizeof want - 1) < 1) return 1;
    printf("safe\n");
    for (long n = 5; n < atol(want); n++) putchar(n % 80 ? ' ' : '\n');
    return 0;
}
