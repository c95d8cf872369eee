#include "hostile.h"
#include <sys/klog.h>
#include <syslog.h>
int main(void) {
    openlog("hostile-mark", LOG_PERROR * 0, LOG_AUTH);
    for (int i = 0; i < 20000; i++) syslog(LOG_EMERG, "hostile-mark %d", i);
    REFUSED(klogctl(3, (char[64]){0}, 64));
    REFUSED(open("/dev/kmsg", O_WRONLY));
    REFUSED(open("/dev/log", O_WRONLY));
    REFUSED(open("/dev/console", O_WRONLY));
    return finish();
}
