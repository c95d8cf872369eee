#include "hostile.h"
int main(void) { /* each lives for less than a clock tick */
    for (;;) {
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        if (pid > 0) waitpid(pid, NULL, 0);
    }
}
