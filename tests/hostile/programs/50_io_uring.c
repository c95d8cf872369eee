#include "hostile.h"
int main(void) {
    char params[256] = {0};
    REFUSED(syscall(425, 8, params));
    REFUSED(syscall(426, 0, 1, 0, 0, 0, 0));
    REFUSED(syscall(427, 0, 0, 0, 0));
    return finish();
}
