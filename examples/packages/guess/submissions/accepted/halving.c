#include <stdio.h>
#include <string.h>

int main(void) {
    int low = 1, high = 1000;
    char answer[16] = "";
    while (strcmp(answer, "correct") != 0) {
        int middle = (low + high) / 2;
        printf("%d\n", middle);
        fflush(stdout);
        if (scanf("%15s", answer) != 1) return 1;
        if (strcmp(answer, "lower") == 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
}
