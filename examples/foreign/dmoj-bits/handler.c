#include <stdio.h>
#include "bits.h"

static word number;

int main() {
    int count;
    if (scanf("%d", &count) != 1) return 1;
    while (count-- > 0 && scanf("%u", &number) == 1) printf("%d\n", bits(number));
    return 0;
}
