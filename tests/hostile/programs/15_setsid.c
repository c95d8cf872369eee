#include "hostile.h"
int main(void) {
    for (int s = 1; s < 65; s++) signal(s, SIG_IGN);
    for (int i = 0; i < 5; i++)
        if (fork() == 0) {
            setsid();
            if (fork() == 0) {
                setsid();
                if (chdir("/") < 0) return 1;
                for (;;) usleep(1000);
            }
            _exit(0);
        }
    while (wait(NULL) > 0 || errno == EINTR) {
    }
    return finish();
}
