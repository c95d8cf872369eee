#include <sys/ptrace.h>
#include <unistd.h>
int main(void) { return (int)ptrace(PTRACE_SEIZE, getppid(), 0, 0); }
