#include "hostile.h"
#include <sys/sysmacros.h>
#include <sys/un.h>
int main(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/scratch/hostile-mark-socket"};
    mkfifo("/scratch/hostile-mark-fifo", 0600);
    bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
    if (symlink("/etc/shadow", "/scratch/hostile-mark-link") < 0 || mkdir("/scratch/hostile-mark-dir", 0) < 0) return 1;
    REFUSED(mknod("/scratch/zero", S_IFCHR | 0666, makedev(1, 5)));
    REFUSED(mknod("/tmp/disk", S_IFBLK | 0666, makedev(254, 0)));
    REFUSED(unlink("/dev/stdout"));
    REFUSED(rename("/scratch/hostile-mark-link", "/dev/stdout"));
    REFUSED(fcntl(1, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_SEAL));
    return finish();
}
