#include "hostile.h"
int main(void) { /* zombies that nobody waits for have used the time */
    for (int i = 0; i < 6; i++)
        if (fork() == 0) {
            burn(0.1);
            _exit(0);
        }
    burn(0.05);
    siginfo_t info;
    for (int i = 0; i < 6; i++) waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
    sleep(30);
    return finish();
}
