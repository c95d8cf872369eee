#include <stdio.h>

int main(void) {
    int low = 1, high = 1000;
    char said[10];
    while (1) {
        int middle = (low + high) / 2;
        printf("%d\n", middle);
        fflush(stdout);
        if (scanf("%9s", said) != 1 || said[0] == 'O') return 0;
        if (said[0] == 'H') low = middle + 1;
        else high = middle - 1;
    }
}
