#include <stdio.h>

static char composite[100001];

int main(void) {
    int n, count = 0;
    if (scanf("%d", &n) != 1) return 1;
    for (int k = 2; k <= n; k++) {
        if (composite[k]) continue;
        count++;
        for (long m = (long)k * k; m <= n; m += k) composite[m] = 1;
    }
    printf("%d\n", count);
    return 0;
}
