#include "hostile.h"
int main(void) {
    int shared = open("/usr/bin/env", O_RDONLY);
    REFUSED(fcntl(shared, F_SETLEASE, F_RDLCK));
    REFUSED(fcntl(shared, F_NOTIFY, DN_ACCESS | DN_MULTISHOT));
    REFUSED(syscall(SYS_fcntl, shared, 0x100000000L + F_SETLEASE, F_RDLCK));
    return shared < 0 ? 1 : finish();
}
