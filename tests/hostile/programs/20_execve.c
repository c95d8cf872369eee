#include "hostile.h"
int main(void) { /* another program is welcome: it has the same walls around it */
    char *argv[] = {"sh", "-c", "test $(id -u) = 1000 && test $PPID = 1 && echo safe", NULL};
    char *env[] = {"LD_PRELOAD=/scratch/evil.so", NULL};
    execve("/bin/sh", argv, env);
    return 1;
}
