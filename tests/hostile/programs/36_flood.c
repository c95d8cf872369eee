#include "hostile.h"
int main(void) {
    char how[16] = "";
    if (read(0, how, sizeof how - 1) < 1) return 1;
    FILE *to = how[0] == 'e' ? stderr : stdout;
    for (;;) fputs(how[0] == 'n' ? "\n\n\n\n\n\n\n\n" : "all work and no play\n", to);
}
