#include "hostile.h"
int main(int argc, char **argv) { /* its own image: from its standard output, from a file, from memory */
    static char image[1 << 20];
    char *again[] = {"x", "x", NULL}, *env[] = {NULL};
    if (argc > 1) return finish();
    int own = open("/proc/self/exe", O_RDONLY), file = open("/scratch/copy", O_CREAT | O_WRONLY, 0755);
    int memory = (int)syscall(SYS_memfd_create, "x", 0);
    ssize_t size = read(own, image, sizeof image);
    if (size <= 0 || write(file, image, (size_t)size) != size || write(memory, image, (size_t)size) != size) return 2;
    close(file);
    if (fork() == 0) {
        syscall(SYS_execveat, 1, "", again, env, 0x1000);
        _exit(5);
    }
    wait(NULL);
    if (fork() == 0) {
        close(1); /* the last copy answers */
        execve("/scratch/copy", again, env);
        _exit(5);
    }
    wait(NULL);
    if (ftruncate(1, 0) == 0 || lseek(1, 0, SEEK_SET) == 0) return 4; /* a pipe */
    syscall(SYS_execveat, memory, "", again, env, 0x1000);
    return 6;
}
