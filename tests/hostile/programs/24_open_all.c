#include "hostile.h"
int main(void) {
    int count = 0, ends[2];
    while (count < 100000 && open("/dev/null", O_RDONLY) >= 0) count++;
    through = count > 256;
    REFUSED(pipe(ends));
    REFUSED(dup2(0, 1000));
    return finish();
}
