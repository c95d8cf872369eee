#include "whisper.h"

std::string encode(int number) {
    std::string bits;
    for (; number; number /= 2) bits.insert(bits.begin(), char('0' + number % 2));
    return bits.empty() ? "0" : bits;
}

int decode(std::string bits) {
    int number = 0;
    for (char bit : bits) number = 2 * number + (bit - '0');
    return number;
}
