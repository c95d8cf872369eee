/* Right, but counts anew for every question, dividing by every number up to the root. */
#include <stdio.h>

int main(void)
{
    int q, x;

    if (scanf("%d", &q) != 1)
        return 1;
    while (q-- > 0 && scanf("%d", &x) == 1) {
        int count = 0;

        for (int i = 2; i <= x; i++) {
            int prime = 1;

            for (int j = 2; (long long)j * j <= i && prime; j++)
                prime = i % j != 0;
            count += prime;
        }
        printf("%d\n", count);
    }
    return 0;
}
