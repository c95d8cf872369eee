/* Writes to where nothing is: killed by SIGSEGV. */
#include <stdio.h>

int main(void)
{
    volatile int *volatile nowhere = NULL;

    *nowhere = 1;
    return 0;
}
