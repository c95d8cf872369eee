#include <stdio.h>

int main(void) {
    int n, count = 0;
    if (scanf("%d", &n) != 1) return 1;
    for (int k = 2; k <= n; k++) {
        volatile int divisors = 0;
        for (int d = 1; d <= k; d++) divisors += k % d == 0;
        for (int d = k; d >= 1; d--) divisors += k % d == 0;
        count += divisors == 4;
    }
    printf("%d\n", count);
    return 0;
}
