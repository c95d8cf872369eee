#include <stdio.h>

int main(void)
{
    int number, sum = 0;
    FILE *in = fopen("numbers.in", "r"), *out = fopen("sum.out", "w");
    while (fscanf(in, "%d", &number) == 1) sum = (int)((unsigned)sum + (unsigned)number);
    fprintf(out, "%d\n", sum);
    return 0;
}
