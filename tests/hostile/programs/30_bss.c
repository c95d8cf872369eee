#include "hostile.h"
static char big[200 << 20];
int main(void) {
    memset(big, 1, sizeof big);
    return big[12345] == 1 ? finish() : 1;
}
