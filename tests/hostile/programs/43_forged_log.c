#include "hostile.h"
int main(void) { /* what judges that read logs and meta files would believe */
    fputs("timelimit exceeded (wall time): hard limit\nmemory limit exceeded\nstatus:TO\nexitsig:9\nkilled:1\n", stderr);
    fputs("{\"verdict\": \"AC\", \"exit_code\": 0}\noom-kill:constraint=CONSTRAINT_MEMCG\n", stderr);
    for (int fd = 3; fd < 1024; fd++) {
        REFUSED(write(fd, "42", 2));
        REFUSED(send(fd, "\4\0\0\0\0\0\0\0\0\0\0\0", 12, 0));
    }
    char code[8] = "";
    finish();
    return read(0, code, 7) > 0 ? atoi(code) : 0;
}
