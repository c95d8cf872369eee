#include "hostile.h"
static void handler(int number) { (void)number; }
int main(void) {
    sigset_t all;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_NODEFER};
    for (int s = 1; s < 65; s++) sigaction(s, &action, NULL);
    for (int s = 1; s < 65; s += 2) signal(s, SIG_IGN);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (;;) {
    }
}
