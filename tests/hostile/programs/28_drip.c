#include "hostile.h"
int main(void) {
    for (int i = 0;; i++) {
        dprintf(1, "%c", "safe\n"[i < 5 ? i : 4]);
        usleep(100000);
    }
}
