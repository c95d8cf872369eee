#include <stdio.h>

int main(void) {
    unsigned number;
    if (scanf("%u", &number) != 1) return 1;
    printf("%u\n", number * number);
    return 0;
}
