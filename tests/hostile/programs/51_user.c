#include "hostile.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/shm.h>
/*
 * What counts for the user and not for a process: test 1 takes of it and dies, test 2 must find all of it free; of large
 * pipes, soon (docs/sandbox.md has why), without a socket of its own that would set the kernel's collector to work.
 */
enum { PIPES = 64 }; /* of 1 MiB: what the kernel lets a user have in large pipes */
static int give(int to, const int *fds, int count) {
    union { struct cmsghdr head; char space[CMSG_SPACE(8 * sizeof(int))]; } control = {0};
    struct iovec part = {"", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
    control.head = (struct cmsghdr){CMSG_LEN((size_t)count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), fds, (size_t)count * sizeof(int));
    return (int)sendmsg(to, &message, MSG_DONTWAIT);
}
/* A pair of sockets under way in itself, with another that holds a large pipe; nobody has any of it open. */
static int leave(void) {
    int ends[2], inner[2], ducts[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) < 0 || socketpair(AF_UNIX, SOCK_DGRAM, 0, inner) < 0 || pipe(ducts) < 0) return -1;
    fcntl(ducts[1], F_SETPIPE_SZ, 1 << 20);
    int outer[4] = {ends[0], ends[1], inner[0], inner[1]};
    if (give(inner[0], ducts, 2) < 0 || give(ends[0], outer, 4) < 0) return -1;
    for (int i = 0; i < 2; i++) close(ends[i]), close(inner[i]), close(ducts[i]);
    return 0;
}
/* How many large pipes the user may have at once; none is there afterwards. */
static int large_pipes(void) {
    int ends[4 * PIPES], made = 0;
    for (; made < 2 * PIPES && pipe(&ends[2 * made]) == 0; made++)
        if (fcntl(ends[2 * made], F_SETPIPE_SZ, 1 << 20) < 0) {
            close(ends[2 * made]), close(ends[2 * made + 1]);
            break;
        }
    for (int i = 0; i < 2 * made; i++) close(ends[i]);
    return made;
}
int main(void) {
    char what[16] = "", name[32];
    struct rlimit files;
    if (read(0, what, sizeof what - 1) < 1 || getrlimit(RLIMIT_NOFILE, &files) < 0) return 1;
    if (what[0] == 'l' && what[1] == 'e') {
        for (int i = 0; i < 30; i++)
            if (leave() < 0) return printf("%d left: %s\n", i, strerror(errno)), 0;
        for (int i = 0; i < 300; i++) {
            sprintf(name, "/hostile-%d", i);
            if (mq_open(name, O_CREAT | O_RDWR, 0600, NULL) < 0) break;
        }
        shmctl(shmget(IPC_PRIVATE, 65536, 0600), SHM_LOCK, NULL);
        return puts("left"), 0;
    }
    int ends[2], sent = 0, pipes = large_pipes(), queues = 0;
    for (int tries = 0; pipes < PIPES && tries < 20; tries++) {
        usleep(10000);
        pipes = large_pipes();
    }
    for (;; sent++) {
        if (sent % 8 == 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) < 0) break;
        if (give(ends[0], ends, 1) < 0) break;
    }
    int locked = shmctl(shmget(IPC_PRIVATE, 65536, 0600), SHM_LOCK, NULL);
    for (; queues < 10; queues++) { /* all of them, or none */
        sprintf(name, "/hostile-%d", queues);
        if (mq_open(name, O_CREAT | O_RDWR, 0600, NULL) < 0) break;
    }
    if (sent == (int)files.rlim_cur + 1 && pipes == PIPES && locked < 0 && queues == 0) return puts("all"), 0;
    return printf("%d of %d descriptors, %d of %d pipes, shared memory %s, %d queues\n", sent, (int)files.rlim_cur + 1,
                  pipes, PIPES, locked < 0 ? "is not locked" : "is locked", queues), 0;
}
