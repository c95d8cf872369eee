#include "hostile.h"
static void *spin(void *x) {
    for (;;) pause();
    return x;
}
int main(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    int count = 0;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    while (count < 5000 && pthread_create(&thread, &attributes, spin, NULL) == 0) count++;
    through = count >= 32;
    finish();
    _exit(0);
}
