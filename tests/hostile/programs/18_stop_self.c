#include "hostile.h"
int main(void) {
    finish();
    raise(SIGSTOP);
    return 0;
}
