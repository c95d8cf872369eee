#include "hostile.h"
#include <dirent.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/un.h>
/* What counts on from run to run: test 1 moves everything that it can, test 2 finds it where test 1 did. */
int main(void) {
    char what[16] = "";
    if (read(0, what, sizeof what - 1) < 1) return 1;
    struct stat pts, box;
    int pids = strchr(what, 'p') != NULL; /* where the kernel lets them be set back */
    if (pids && getpid() != 10) printf("pid %d\n", getpid());
    if (fork() == 0) _exit(pids && getpid() != 11);
    int status;
    wait(&status);
    if (status) printf("the second pid is another\n");
    if (stat("/dev/pts/ptmx", &pts) == 0 || stat("/dev/pts/0", &pts) == 0) printf("there are terminals\n");
    if (stat("/dev/pts", &pts) < 0 || stat("/dev", &box) < 0 || pts.st_mtim.tv_sec > box.st_mtim.tv_sec + 1) printf("pts has changed\n");
    int id[3] = {shmget(IPC_PRIVATE, 4096, 0600), msgget(IPC_PRIVATE, 0600), semget(IPC_PRIVATE, 1, 0600)};
    if (id[0] || id[1] || id[2]) printf("ids %d %d %d\n", id[0], id[1], id[2]);
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0hostile-mark"}, automatic = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(sock, (struct sockaddr *)&address, sizeof address) < 0) printf("the name is taken\n");
    if (what[0] == 'l' && what[1] == 'e') {
        for (int i = 0; i < 300; i++)
            if (fork() == 0) _exit(0); else wait(NULL);
        for (int i = 0; i < 50; i++) bind(socket(AF_UNIX, SOCK_DGRAM, 0), (struct sockaddr *)&automatic, 2);
        /* a socket with a name that is under way in itself: only the kernel's collector ends it, some time */
        for (int i = 0; i < 20; i++) {
            int ends[2];
            if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) < 0) break;
            int sent[3] = {ends[0], ends[1], sock};
            union { struct cmsghdr head; char space[CMSG_SPACE(sizeof sent)]; } control = {0};
            struct iovec part = {what, 1};
            struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
            control.head = (struct cmsghdr){CMSG_LEN(sizeof sent), SOL_SOCKET, SCM_RIGHTS};
            memcpy(CMSG_DATA(&control.head), sent, sizeof sent);
            sendmsg(ends[0], &message, 0);
            close(ends[0]);
            close(ends[1]);
        }
        for (int i = 0; i < 5; i++) msgget(IPC_PRIVATE, 0600);
        open("/dev/ptmx", O_RDWR);
        utimensat(AT_FDCWD, "/dev/pts/ptmx", NULL, 0);
        int udp = socket(AF_INET, SOCK_DGRAM, 0);
        if (udp >= 0) printf("there is a network\n");
    }
    puts(what[0] == 'l' && what[1] == 'e' ? "left" : "clean");
    return 0;
}
