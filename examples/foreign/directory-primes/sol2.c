#include <stdio.h>

int main(void)
{
    int n, count = 0;
    scanf("%d", &n);
    for (int k = 2; k <= n; k++) {
        int prime = 1;
        for (int d = 2; d * d <= k && prime; d++)
            prime = k % d != 0;
        count += prime;
    }
    printf("%d\n", count);
    return 0;
}
