#include <stdio.h>

int main(void)
{
    long long number, sum = 0;
    FILE *in = fopen("numbers.in", "r"), *out = fopen("sum.out", "w");
    while (fscanf(in, "%lld", &number) == 1) sum += number;
    fprintf(out, "%lld\n", sum);
    return 0;
}
