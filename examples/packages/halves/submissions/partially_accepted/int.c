#include <stdio.h>

int main(void) {
    long long number;
    if (scanf("%lld", &number) != 1) return 1;
    printf("%d\n", number > 100 ? 0 : (int)(number / 2));
    return 0;
}
