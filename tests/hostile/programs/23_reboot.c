#include <sys/reboot.h>
int main(void) { return reboot(RB_DISABLE_CAD); }
