#include "hostile.h"
int main(void) {
    for (int i = 0; i < 8; i++)
        if (fork() == 0) {
            memset(malloc(16 << 20), 1, 16 << 20);
            pause();
        }
    pause();
    return finish();
}
