#include "hostile.h"
int main(void) { /* children that burn and hold the output open; the parent ends at once, with the right answer */
    for (int i = 0; i < 4; i++)
        if (fork() == 0)
            for (;;) {
            }
    return finish();
}
