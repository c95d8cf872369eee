#include <cstdio>

int main() {
    int number;
    if (scanf("%d", &number) != 1) return 1;
    int divisor = 2;
    while (number % divisor) divisor++;
    printf("%d\n", divisor);
}
