#include <stdio.h>

int main(void)
{
    int n;
    if (scanf("%d", &n) != 1) return 1;
    for (volatile int more = n > 100; more;) {
    }
    while (n) printf("%d\n", n--);
}
