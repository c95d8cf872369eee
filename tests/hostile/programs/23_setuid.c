#include "hostile.h"
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
int main(void) {
    gid_t group = 0;
    REFUSED(setuid(0));
    REFUSED(setgid(0));
    REFUSED(setresuid(0, 0, 0));
    REFUSED(setgroups(1, &group));
    REFUSED(seteuid(65534));
    REFUSED(prctl(PR_SET_SECUREBITS, 0, 0, 0, 0));
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct all[2] = {{~0U, ~0U, ~0U}, {~0U, ~0U, ~0U}};
    REFUSED(syscall(SYS_capset, &header, all));
    prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
    through |= prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
    for (int cap = 0; cap < 41; cap++) through |= prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1;
    through |= geteuid() != 1000 || system("/bin/su -c true root >/dev/null 2>&1 </dev/null") == 0;
    return finish();
}
