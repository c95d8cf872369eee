#include "hostile.h"
#include <sys/file.h>
/* A lock that conflicts with another is a message to its holder's neighbour. Both are asked for here. */
#define TOLD_NOTHING(call)                                       \
    do {                                                         \
        if ((call) == -1 && (errno == EAGAIN || errno == EACCES || errno == EDEADLK)) { \
            through = 1;                                         \
            dprintf(1, "told something: %s\n", #call);           \
        }                                                        \
    } while (0)
static void both(const char *path, int mode) {
    int first = open(path, mode), second = open(path, mode);
    struct flock lock = {.l_type = mode == O_RDWR ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET, .l_start = 7, .l_len = 1};
    struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (first < 0 || second < 0) exit(1);
    TOLD_NOTHING(flock(first, LOCK_EX | LOCK_NB));
    TOLD_NOTHING(flock(second, LOCK_EX | LOCK_NB));
    TOLD_NOTHING(fcntl(first, F_OFD_SETLK, &lock));
    TOLD_NOTHING(fcntl(second, F_OFD_SETLK, &lock));
    REFUSED(fcntl(second, F_OFD_GETLK, &asked));
    fcntl(first, F_SETLK, &lock);
    if (fork() == 0) { /* locks of a process are not its child's */
        TOLD_NOTHING(fcntl(second, F_SETLK, &lock));
        TOLD_NOTHING(syscall(SYS_fcntl, second, 0x100000000L + F_SETLK, &lock));
        REFUSED(fcntl(second, F_GETLK, &asked));
        _exit(through);
    }
    int status;
    wait(&status);
    through |= status != 0;
}
int main(void) {
    both("/usr/bin/env", O_RDONLY);
    both("/dev/null", O_RDWR);
    both("/scratch", O_RDONLY | O_DIRECTORY);
    return finish();
}
