#include "hostile.h"
#include <mqueue.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
/* Each kind is filled in as many processes as there may be: what the kernel keeps for a program is the program's. */
static char block[1 << 16];
static void sockets(int kind) {
    int ends[2], most = 1 << 20;
    while (socketpair(AF_UNIX, kind | SOCK_NONBLOCK, 0, ends) == 0)
        for (int side = 0; side < 2; side++) {
            setsockopt(ends[side], SOL_SOCKET, SO_SNDBUF, &most, sizeof most);
            while (write(ends[side], block, sizeof block / 2) > 0) {
            }
        }
}
/* Descriptors that nobody holds but a message under way; the sockets are under way in each other. */
static void in_flight(void) {
    for (;;) {
        int ends[2], file = memfd_create("x", 0);
        if (file < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) < 0) break;
        write(file, block, sizeof block);
        int sent[3] = {file, ends[0], ends[1]};
        union { struct cmsghdr head; char space[CMSG_SPACE(sizeof sent)]; } control = {0};
        struct iovec part = {block, 1};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        control.head = (struct cmsghdr){CMSG_LEN(sizeof sent), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), sent, sizeof sent);
        int told = sendmsg(ends[0], &message, 0);
        close(file);
        close(ends[0]);
        close(ends[1]);
        if (told < 0) break;
    }
}
static void bound(void) { /* sockets with names, and connections that nobody accepts */
    for (;;) {
        int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        if (sock < 0 || bind(sock, (struct sockaddr *)&address, 2) < 0 || listen(sock, 4096) < 0) break;
        socklen_t size = sizeof address;
        getsockname(sock, (struct sockaddr *)&address, &size);
        for (int i = 0; i < 100; i++) {
            int other = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
            if (other < 0 || connect(other, (struct sockaddr *)&address, size) < 0) break;
            while (write(other, block, sizeof block) > 0) {
            }
            close(other);
        }
    }
}
static void queues(void) {
    struct { long type; char text[8192]; } message = {1, ""};
    for (;;) {
        int queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
        if (queue < 0) break;
        while (msgsnd(queue, &message, sizeof message.text, IPC_NOWAIT) == 0) {
        }
    }
}
static void semaphores(void) {
    while (semget(IPC_PRIVATE, 32000, IPC_CREAT | 0600) >= 0) {
    }
}
static void polls(void) { /* every descriptor watches every other */
    int all[1024], count = 0, made;
    while (count < 1024 && (made = count % 2 ? eventfd(0, 0) : epoll_create1(0)) >= 0) all[count++] = made;
    for (int i = 0; i < count; i += 2)
        for (int j = 1; j < count; j += 2) {
            struct epoll_event event = {.events = EPOLLIN};
            epoll_ctl(all[i], EPOLL_CTL_ADD, all[j], &event);
        }
}
static void spliced(void) { /* pages that are unmapped here live on in pipes */
    int ends[2];
    while (pipe2(ends, O_NONBLOCK) == 0) {
        fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        for (int i = 0; i < 256; i++) {
            char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(page, i, 4096);
            struct iovec part = {page, 4096};
            if (vmsplice(ends[1], &part, 1, SPLICE_F_GIFT) < 0) break;
            munmap(page, 4096);
        }
    }
}
static void mappings(void) { /* pieces of memory that differ: a struct of the kernel for each */
    for (int i = 0; i < 60000; i++) {
        char *part = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (part == MAP_FAILED || mprotect(part, 4096, PROT_NONE) < 0) break;
    }
}
static void files(void) { /* descriptors of one file, and what they keep */
    while (memfd_create("x", 0) >= 0 && timerfd_create(CLOCK_MONOTONIC, 0) >= 0) {
    }
    sigset_t all;
    sigfillset(&all);
    while (signalfd(-1, &all, 0) >= 0) {
    }
}
static void (*const kinds[])(void) = {
    ['b'] = bound, ['f'] = in_flight, ['m'] = queues, ['a'] = semaphores, ['e'] = polls,
    ['p'] = spliced, ['v'] = mappings, ['o'] = files,
};
int main(void) {
    char what = 0;
    if (read(0, &what, 1) != 1) return 1;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int done[2], children = 0;
    char byte;
    if (pipe(done) < 0) return 1;
    for (; children < 30; children++) {
        pid_t pid = fork();
        if (pid < 0) break;
        if (pid > 0) continue;
        close(done[0]);
        if (what == 'd') sockets(SOCK_DGRAM);
        else if (what == 'q') sockets(SOCK_SEQPACKET);
        else kinds[(int)what]();
        write(done[1], "x", 1);
        pause();
    }
    close(done[1]);
    for (int i = 0; i < children; i++)
        if (read(done[0], &byte, 1) != 1) return 2;
    return finish();
}
