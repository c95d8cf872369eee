#include "hostile.h"
int main(void) { /* its descriptor 1 is a file of its own, and nobody is the worse for it */
    for (int fd = 0; fd < 1024; fd++) close(fd);
    open("/dev/null", O_RDONLY);
    open("/scratch/out", O_CREAT | O_RDWR, 0600);
    return finish();
}
