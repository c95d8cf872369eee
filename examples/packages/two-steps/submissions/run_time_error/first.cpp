#include <cstdlib>
#include "steps.h"

int pack(int, int) { abort(); }

int sum(int packed) { return packed; }
