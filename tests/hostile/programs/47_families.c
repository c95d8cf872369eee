#include "hostile.h"
int main(void) { /* UNIX is the only family that there is */
    for (int family = 0; family < 64; family++) {
        if (family == AF_UNIX) continue;
        for (int kind = 1; kind < 12; kind++)
            for (int protocol = 0; protocol < 24; protocol++) REFUSED(socket(family, kind, protocol));
        REFUSED(socket(family, SOCK_STREAM, 262)); /* MPTCP */
        REFUSED(socketpair(family, SOCK_STREAM, 0, (int[2]){0, 0}));
    }
    REFUSED(syscall(SYS_socket, 0x100000000L + AF_NETLINK, SOCK_RAW, 0));
    REFUSED(syscall(SYS_socket, 0x100000000L + AF_INET, SOCK_STREAM, 0));
    REFUSED(syscall(SYS_socketpair, 0x100000000L + AF_INET6, SOCK_STREAM, 0, (int[2]){0, 0}));
    return finish();
}
