#include <stdio.h>

int main(void) {
    int last = 0, run = 0, most = 0, letter;
    while ((letter = getchar()) != EOF && letter != '\n') {
        run = letter == last ? run + 1 : 1;
        if (run > most) most = run;
        last = letter;
    }
    printf("%d\n", most);
}
