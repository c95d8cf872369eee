#include "/dev/stdin"
#include "/proc/self/fd/0"
#include "/dev/tty"
int main(void) { return 0; }
