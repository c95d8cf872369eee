#include "hostile.h"
int main(void) { /* pages behind the end of the output: memory that its size does not show */
    if (fallocate(1, FALLOC_FL_KEEP_SIZE, 0, 256 << 20) < 0) return 3;
    return finish();
}
