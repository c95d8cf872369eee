#include "hostile.h"
int main(void) { /* each child stays below the limit, and so does the parent */
    for (int i = 0; i < 100; i++) {
        if (fork() == 0) {
            burn(0.05);
            _exit(0);
        }
        wait(NULL);
    }
    return finish();
}
