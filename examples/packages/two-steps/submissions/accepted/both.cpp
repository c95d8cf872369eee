#include "steps.h"

int pack(int a, int b) { return 1000 * a + b; }

int sum(int packed) { return packed / 1000 + packed % 1000; }
