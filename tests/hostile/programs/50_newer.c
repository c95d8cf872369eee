#include "hostile.h"
#include <sys/prctl.h>
/* Calls, options and requests that nobody has looked at do not exist. */
#define MISSING(call) do { errno = 0; if ((call) != -1 || errno != ENOSYS) { through = 1; dprintf(1, "there: %s %d\n", #call, errno); } } while (0)
int main(void) {
    for (long number = 470; number < 1200; number++) MISSING(syscall(number, 0, 0, 0, 0, 0, 0));
    MISSING(syscall(0x3fffffff, 0, 0, 0, 0, 0, 0));
    /* futexes of the second kind, mounts, security modules, landlock, attributes of files, memory policy */
    long known[] = {437, 444, 445, 446, 449, 450, 454, 455, 456, 457, 458, 459, 460, 461, 468, 469, 237, 238, 239, 136, 139};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) MISSING(syscall(known[i], 0, 0, 0, 0, 0, 0));
    for (int option = 80; option < 200; option++) REFUSED(prctl(option, 1, 0, 0, 0));
    REFUSED(prctl(62, 1, 0, 0, 0));                /* PR_SCHED_CORE: keeps others off the sibling thread */
    REFUSED(prctl(67, 1, 0, 0, 0));                /* PR_SET_MEMORY_MERGE */
    REFUSED(prctl(0x53564d41, 0, 0, 0, 0));        /* PR_SET_VMA: names in the kernel's memory */
    REFUSED(syscall(SYS_membarrier, 2, 0, 0));     /* interrupts on every processor */
    REFUSED(syscall(SYS_adjtimex, (char[256]){0}));
    for (unsigned long request = 0x5500; request < 0x100000000; request += 0x10f10f) REFUSED(syscall(SYS_ioctl, 0, request, 0));
    REFUSED(syscall(SYS_ioctl, 0, 0x8008940eL, 0));
    char cookie[16];
    socklen_t size = sizeof cookie;
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    REFUSED(getsockopt(sock, SOL_SOCKET, 57, cookie, &size)); /* numbers that count the host's sockets and namespaces */
    REFUSED(getsockopt(sock, SOL_SOCKET, 71, cookie, &size));
    return finish();
}
