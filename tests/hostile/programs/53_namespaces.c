#include "hostile.h"
int main(void) {
    int kinds[] = {0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x80};
    for (int i = 0; i < 8; i++) {
        REFUSED(unshare(kinds[i]));
        if (kinds[i] != 0x80) REFUSED(syscall(SYS_clone, kinds[i] | SIGCHLD, 0, 0, 0, 0));
    }
    uint64_t arguments[11] = {0x10000000, 0, 0, 0, SIGCHLD};
    REFUSED(syscall(SYS_clone3, arguments, sizeof arguments));
    char attributes[128] = {0};
    REFUSED(syscall(SYS_perf_event_open, attributes, 0, -1, -1, 0));
    REFUSED(syscall(SYS_userfaultfd, 1));
    REFUSED(open("/dev/userfaultfd", O_RDWR));
    REFUSED(syscall(SYS_process_vm_readv, getpid(), 0, 0, 0, 0, 0));
    REFUSED(syscall(SYS_kcmp, 1, 1, 0, 0, 0));
    REFUSED(syscall(SYS_name_to_handle_at, AT_FDCWD, "/", 0, 0, 0));
    REFUSED(syscall(SYS_fanotify_init, 0, 0));
    REFUSED(syscall(447, 0)); /* memfd_secret: memory that no one can look into or swap out */
    return finish();
}
