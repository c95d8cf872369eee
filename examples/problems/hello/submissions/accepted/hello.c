#include <stdio.h>

int main(void)
{
    int n;
    char name[32];

    if (scanf("%d", &n) != 1)
        return 1;
    while (n-- > 0 && scanf("%31s", name) == 1)
        printf("Hello, %s!\n", name);
    return 0;
}
