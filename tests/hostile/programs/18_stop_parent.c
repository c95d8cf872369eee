#include "hostile.h"
int main(void) {
    REFUSED(kill(getppid(), SIGSTOP));
    REFUSED(kill(getppid(), SIGTSTP));
    for (int pid = 1; pid < getpid(); pid++) REFUSED(kill(pid, SIGSTOP));
    kill(-1, SIGSTOP); /* the next test needs the others */
    return finish();
}
