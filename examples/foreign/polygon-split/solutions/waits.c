#include <stdio.h>

int main(void)
{
    unsigned n, a = 1;
    scanf("%u", &n);
    if (n > 1000000)
        for (volatile unsigned long i = 0; i < 100000000000UL; i++)
            ;
    printf("%u %u\n", a, n - a);
    return 0;
}
