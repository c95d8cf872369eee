#include <stdio.h>

int main(void) {
    char words[100][20];
    int count = 0, number;
    FILE *book = fopen("book.txt", "r");
    while (book && count < 100 && fscanf(book, "%19s", words[count]) == 1) count++;
    while (scanf("%d", &number) == 1 && number) {
        printf("%s\n", words[number - 1]);
        fflush(stdout);
    }
    return 0;
}
