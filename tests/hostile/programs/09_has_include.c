#include "hostile.h"
int main(void) {
#if __has_include("@ANSWER@") || __has_include("@SECRET@") || __has_include("/etc/shadow") || __has_include("/root")
    through = 1;
#endif
    return finish();
}
