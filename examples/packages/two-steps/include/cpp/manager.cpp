#include <cstdio>
#include <cstring>
#include "steps.h"

int main(int argc, char **argv) {
    int a, b, packed;
    if (argc != 3) return 1;
    if (!strcmp(argv[1], "0")) {
        FILE *out = fopen(argv[2], "w");
        if (scanf("%d %d", &a, &b) == 2) fprintf(out, "%d\n", pack(a, b));
    } else {
        FILE *in = fopen(argv[2], "r");
        if (fscanf(in, "%d", &packed) == 1) printf("%d\n", sum(packed));
    }
}
