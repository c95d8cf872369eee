#include <stdio.h>

#define LIMIT 2000000

static unsigned char composite[LIMIT + 1];
static int count[LIMIT + 1];

int main(void)
{
    int q, x;

    for (long long i = 2; i <= LIMIT; i++) {
        count[i] = count[i - 1] + !composite[i];
        if (!composite[i])
            for (long long j = i * i; j <= LIMIT; j += i)
                composite[j] = 1;
    }
    if (scanf("%d", &q) != 1)
        return 1;
    while (q-- > 0 && scanf("%d", &x) == 1)
        printf("%d\n", count[x]);
    return 0;
}
