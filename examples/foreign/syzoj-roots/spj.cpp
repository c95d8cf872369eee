#include <cmath>
#include <cstdio>

// Says so many percent: all, or half for a root that is a little off.
int main() {
    double right, said;
    FILE *answer = fopen("answer", "r"), *output = fopen("user_out", "r");
    if (!answer || fscanf(answer, "%lf", &right) != 1) return 1;
    if (!output || fscanf(output, "%lf", &said) != 1 || !(std::fabs(said - right) < 0.5)) {
        puts("0");
        fputs("That is no root.\n", stderr);
        return 0;
    }
    puts(std::fabs(said - right) < 1e-6 ? "100" : "50");
}
