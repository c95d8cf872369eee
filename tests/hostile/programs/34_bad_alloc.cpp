#include <cstdio>
#include <cstring>
#include <new>
int main() {
    try {
        char *huge = new char[1UL << 46];
        huge[0] = 1;
    } catch (const std::bad_alloc &) {
    }
    for (;;) {
        try {
            char *part = new char[1 << 20];
            memset(part, 1, 1 << 20);
        } catch (const std::bad_alloc &) {
            puts("safe");
            return 0;
        }
    }
}
