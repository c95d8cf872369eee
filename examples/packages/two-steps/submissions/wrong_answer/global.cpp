// What the first process keeps is not there in the second.
#include "steps.h"

static int kept;

int pack(int a, int b) {
    kept = a + b;
    return 0;
}

int sum(int packed) { return kept + packed; }
