#include <stdio.h>
#include <unistd.h>
int main(void) {
    printf("safe\n");
    _exit(0);
}
