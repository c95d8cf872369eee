#include <stdio.h>

int main(void) {
    long long n;
    volatile long long left;
    int sum = 0;
    if (scanf("%lld", &n) != 1) return 1;
    for (long long power = 1000000000000000000; power; power /= 10)
        for (; n >= power; sum++)
            for (left = power; left; left--) n--;
    printf("%d\n", sum);
    return 0;
}
