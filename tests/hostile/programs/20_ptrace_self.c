#include <sys/ptrace.h>
int main(void) { return (int)ptrace(PTRACE_TRACEME, 0, 0, 0); }
