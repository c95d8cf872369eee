#include "hostile.h"
int main(void) {
    char how[16] = "";
    int ends[2];
    if (read(0, how, sizeof how - 1) < 1 || pipe(ends) < 0) return 1;
    finish();
    if (how[0] == 'p') pause();
    if (how[0] == 's') select(0, NULL, NULL, NULL, NULL);
    if (how[0] == 'n') sleep(100000);
    if (how[0] == 'r') return (int)read(ends[0], how, 1);
    return 2;
}
