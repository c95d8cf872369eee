#include "decoder.h"

long long decode(int count, const int *bytes) {
    long long number = 0;
    while (count-- > 0) number = number * 256 + bytes[count];
    return number;
}
