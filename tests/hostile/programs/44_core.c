#include "hostile.h"
int main(void) {
    struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &core);
    if (chdir("/tmp") == 0) abort();
    return 0;
}
