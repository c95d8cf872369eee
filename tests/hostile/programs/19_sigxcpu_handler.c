#include "hostile.h"
static void again(int number) {
    signal(number, again);
    for (;;) {
    }
}
int main(void) {
    struct itimerval soon = {{0, 1000}, {0, 1000}};
    signal(SIGXCPU, again);
    signal(SIGVTALRM, again);
    setitimer(ITIMER_VIRTUAL, &soon, NULL);
    for (;;) {
    }
}
