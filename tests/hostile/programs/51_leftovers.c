#include "hostile.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/un.h>
int main(void) { /* first "leave", then "look" */
    char what[16] = "";
    if (read(0, what, sizeof what - 1) < 1) return 1;
    int leave = what[0] == 'l' && what[1] == 'e', make = leave ? IPC_CREAT | 0666 : 0, found = 0;
    const char *places[] = {"/scratch", "/tmp", "/dev/shm", "/box", "/dev", "/var/tmp", "/"};
    for (int i = 0; i < 7; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/hostile-mark", places[i]);
        found += open(name, leave ? O_CREAT | O_WRONLY : O_RDONLY, 0666) >= 0;
    }
    found += shmget(77, 4096, make) >= 0;
    found += msgget(77, make) >= 0;
    found += semget(77, 1, make) >= 0;
    found += mq_open("/hostile-mark", leave ? O_CREAT | O_RDWR : O_RDWR, 0666, NULL) >= 0;
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0hostile-mark"};
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    if (leave)
        found += bind(sock, (struct sockaddr *)&address, sizeof address) == 0 && listen(sock, 5) == 0;
    else
        found += connect(sock, (struct sockaddr *)&address, sizeof address) == 0;
    if (leave && fork() == 0) { /* somebody who holds it all open */
        setsid();
        signal(SIGTERM, SIG_IGN);
        for (;;) pause();
    }
    return dprintf(1, "%s\n", leave ? found >= 7 ? "left" : "could not leave" : found ? "found" : "clean") < 0;
}
