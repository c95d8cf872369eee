/* Prints in scientific notation, which is as good as any other where a tolerance is set. */
#include <math.h>
#include <stdio.h>

int main(void)
{
    static double reading[2000];
    double sum = 0, squares = 0;
    int n;

    if (scanf("%d", &n) != 1)
        return 1;
    for (int i = 0; i < n; i++) {
        if (scanf("%lf", &reading[i]) != 1)
            return 1;
        sum += reading[i];
    }
    for (int i = 0; i < n; i++)
        squares += (reading[i] - sum / n) * (reading[i] - sum / n);
    printf("%.10e %.10e\n", sum / n, sqrt(squares / n));
    return 0;
}
