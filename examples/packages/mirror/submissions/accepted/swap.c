#include <stdio.h>
#include <string.h>

int main(void) {
    char word[32];
    if (scanf("%31s", word) != 1) return 1;
    for (int i = strlen(word); i-- > 0;) putchar(word[i]);
    putchar(10);
}
