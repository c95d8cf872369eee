#include <cstdio>
#include <cstdlib>
#include <iostream>

// So many numbers up to so much, of a generator of our own: the same everywhere.
int main(int argc, char **argv) {
    if (argc != 4) {
        std::cerr << "expected COUNT MOST SEED\n";
        return 1;
    }
    long long count = atoll(argv[1]), most = atoll(argv[2]);
    unsigned long long state = strtoull(argv[3], nullptr, 10);
    printf("%lld\n", count);
    for (long long i = 0; i < count; i++) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        printf("%lld%c", (long long)((state >> 33) % most) + 1, i + 1 < count ? ' ' : '\n');
    }
}
