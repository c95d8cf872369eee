#include <cstdio>
#include <cstdlib>

// COUNT numbers, each larger than the one before by STEP.
int main(int argc, char **argv) {
    if (argc != 3) return 1;
    int count = atoi(argv[1]), step = atoi(argv[2]);
    printf("%d\n", count);
    for (int i = 0; i < count; i++) printf("%d%c", i * step, i + 1 < count ? ' ' : '\n');
}
