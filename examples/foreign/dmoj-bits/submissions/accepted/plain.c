#include "bits.h"

#ifndef SIGNATURE_GRADER
#error The judge defines this word.
#endif

int bits(word number) {
    int found = 0;
    for (; number; number &= number - 1) found++;
    return found;
}
