#include "hostile.h"
int main(void) {
    if (ftruncate(1, (off_t)1 << 40) < 0) return 1;
    return finish();
}
