#include <stdio.h>

int main(void) {
    long long n;
    int sum = 0;
    if (scanf("%lld", &n) != 1) return 1;
    for (; n; n /= 10) sum += n % 10;
    printf("%d\n", sum);
    return 0;
}
