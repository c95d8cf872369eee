#include <stdio.h>

int main(void) {
    int n, x;
    unsigned sum = 0;
    if (scanf("%d", &n) != 1) return 1;
    while (n-- && scanf("%d", &x) == 1) sum += (unsigned)x;
    printf("%d\n", (int)sum);
    return 0;
}
