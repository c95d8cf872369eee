#include "hostile.h"
static void *spin(void *x) {
    for (;;) {
    }
    return x;
}
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 5000; i++) pthread_create(&thread, NULL, spin, NULL);
    for (;;) {
    }
}
