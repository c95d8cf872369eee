/* Never stops answering. */
#include <stdio.h>

int main(void)
{
    while (puts("42") >= 0)
        continue;
    return 0;
}
