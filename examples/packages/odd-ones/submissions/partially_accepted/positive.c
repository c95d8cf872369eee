#include <stdio.h>

/* In C what is left of a negative number is negative, too. */
int main(void) {
    long long n, a, sum = 0;
    if (scanf("%lld", &n) != 1) return 1;
    while (scanf("%lld", &a) == 1)
        if (a % 2 == 1) sum += a;
    printf("%lld\n", sum);
}
