#include <unistd.h>
__asm__(".data\n.globl begin\nbegin: .incbin \"@ANSWER@\"\n.globl end\nend:\n");
extern char begin[], end[];
int main(void) { return write(1, begin, (size_t)(end - begin)) < 0; }
