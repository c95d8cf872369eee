#include <sys/stat.h>
#include <unistd.h>
int main(void) {
    mkdir("/scratch/jail", 0755);
    return chroot("/scratch/jail");
}
