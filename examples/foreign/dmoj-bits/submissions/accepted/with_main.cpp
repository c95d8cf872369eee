// The judge includes bits.h, and gives this main another name.
#include <cstdio>

int bits(word number) { return number ? number % 2 + bits(number / 2) : 0; }

int main() { printf("%d\n", bits(5)); }
