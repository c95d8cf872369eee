#include "hostile.h"
int main(void) {
    lseek(1, (off_t)1 << 40, SEEK_SET);
    return finish();
}
