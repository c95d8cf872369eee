#include <stdio.h>

int main(void)
{
    long long n;
    volatile long long steps = 0, k = 1;
    scanf("%lld", &n);
    for (long long i = 1; i <= n; i++) {
        steps++;
        if (i == (k + 1) * (k + 1))
            k++;
    }
    printf("%lld\n", k);
    return 0;
}
