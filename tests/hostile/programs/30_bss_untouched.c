#include "hostile.h"
static char big[1 << 30];
int main(void) { return big[12345] == 0 ? finish() : 1; }
