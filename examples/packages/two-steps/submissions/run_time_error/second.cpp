#include <cstdlib>
#include "steps.h"

int pack(int a, int b) { return a + b; }

int sum(int) { exit(3); }
