#include "hostile.h"
int main(void) {
    int fd = open("/scratch/hostile-mark-sparse", O_CREAT | O_WRONLY, 0600);
    lseek(fd, (off_t)2 << 30, SEEK_SET);
    return write(fd, "x", 1) == 1 ? finish() : 1;
}
