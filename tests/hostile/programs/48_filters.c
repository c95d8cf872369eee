#include "hostile.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
/* Compiled filters have a bound for the whole host; who fills it keeps every sandbox from starting. */
int main(void) {
    struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog program = {1, all};
    int ends[2], option[] = {26, 44, 50, 51, 52}, yes = 1;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) < 0) return 1;
    for (int i = 0; i < 5; i++) {
        REFUSED(setsockopt(ends[0], SOL_SOCKET, option[i], &program, sizeof program));
        REFUSED(syscall(SYS_setsockopt, ends[0], 0x700000000L + SOL_SOCKET, 0x500000000L + option[i], &program, sizeof program));
        REFUSED(setsockopt(ends[0], SOL_SOCKET, option[i], &yes, sizeof yes));
    }
    REFUSED(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    REFUSED(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
    REFUSED(syscall(SYS_prctl, 0x100000000L + PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
    REFUSED(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
    REFUSED(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
    REFUSED(socket(AF_PACKET, SOCK_RAW, 0));
    REFUSED(socket(AF_PACKET, SOCK_DGRAM, 0));
    return finish();
}
