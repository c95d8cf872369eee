// Accepts any two integers whose sum is the input; with the argument "positive" both must be positive.
#include "feedback.h"

#include <cstring>
#include <fstream>
#include <iostream>

int main(int argc, char **argv) {
    if (argc < 4) return 1;
    std::ifstream input(argv[1]);
    long long n, a, b;
    input >> n;
    if (!(std::cin >> a >> b)) return reject(argv[3], "expected two integers");
    std::string rest;
    if (std::cin >> rest) return reject(argv[3], "there is more than two integers: " + rest);
    if (a + b != n) return reject(argv[3], std::to_string(a) + " + " + std::to_string(b) + " is not " + std::to_string(n));
    for (int i = 4; i < argc; i++)
        if (std::strcmp(argv[i], "positive") == 0 && (a <= 0 || b <= 0)) return reject(argv[3], "not positive");
    return 42;
}
