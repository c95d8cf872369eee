#include <stdio.h>

int main(void)
{
    puts("Hello, compiler!")
    return 0;
}
