#include <stdio.h>

int main(void) {
    int a, b, sum = 0;
    if (scanf("%d%d", &a, &b) != 2) return 1;
    if (b > 10000 || b < 0) b = a;
    for (int i = a; i <= b; i++) sum += i;
    printf("%d\n", sum);
}
