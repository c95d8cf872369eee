#include "hostile.h"
#include <sys/file.h>
int main(void) { /* a file that every sandbox on this host has in common */
    int shared = open("/usr/bin/env", O_RDONLY);
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 7, .l_len = 1};
    REFUSED(flock(shared, LOCK_SH | LOCK_NB));
    REFUSED(fcntl(shared, F_SETLK, &lock));
    REFUSED(fcntl(shared, F_OFD_SETLK, &lock));
    return shared < 0 ? 1 : finish();
}
