#include "hostile.h"
int main(void) {
    for (int ring = -1; ring >= -8; ring--) {
        REFUSED(syscall(SYS_add_key, "user", "hostile-mark", "secret", 6, ring));
        REFUSED(syscall(SYS_request_key, "user", "hostile-mark", NULL, ring));
        REFUSED(syscall(SYS_keyctl, 0, ring, 1));
        REFUSED(syscall(SYS_keyctl, 10, ring, "user", "hostile-mark", 0));
    }
    return finish();
}
