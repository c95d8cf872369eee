/* The output must be one line, and nothing else. */
#include <stdio.h>

int main(void) {
    int c, before = 0, lines = 0;
    while ((c = getchar()) != EOF) {
        if (c == ' ' || c == '\t') return 43;
        lines += c == '\n';
        before = c;
    }
    return lines == 1 && before == '\n' ? 42 : 43;
}
