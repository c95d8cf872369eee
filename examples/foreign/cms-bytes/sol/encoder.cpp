#include "encoder.h"
#include "manager.h"

void encode(long long number) {
    for (; number > 0; number /= 256) send(number % 256);
}
