#include "hostile.h"
char big[5 << 20] = {1};
int main(void) { return big[5] ? 1 : finish(); }
