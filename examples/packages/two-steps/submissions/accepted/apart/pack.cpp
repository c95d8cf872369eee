#include "steps.h"

int pack(int a, int b) { return 1000 * a + b; }
