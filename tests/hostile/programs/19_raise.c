#include "hostile.h"
int main(void) {
    char name[16] = "";
    if (read(0, name, sizeof name - 1) < 1) return 1;
    raise(atoi(name));
    return 9;
}
