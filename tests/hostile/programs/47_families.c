#include "hostile.h"
int main(void) {
    for (int family = 0; family < 64; family++) {
        if (family == AF_UNIX || family == AF_INET || family == AF_INET6) continue;
        for (int kind = 1; kind < 7; kind++)
            for (int protocol = 0; protocol < 24; protocol++) REFUSED(socket(family, kind, protocol));
        REFUSED(socketpair(family, SOCK_STREAM, 0, (int[2]){0, 0}));
    }
    REFUSED(syscall(SYS_socket, 0x100000000L + AF_NETLINK, SOCK_RAW, 0));
    for (int kind = 3; kind < 11; kind++) REFUSED(socket(AF_INET, kind, 1));
    return finish();
}
