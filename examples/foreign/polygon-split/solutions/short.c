#include <stdio.h>

int main(void)
{
    short n;
    scanf("%hd", &n);
    printf("1 %d\n", n - 1);
    return 0;
}
