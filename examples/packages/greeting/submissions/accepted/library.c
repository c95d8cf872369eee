#include <ctype.h>
#include <stdio.h>

#include "greet.h"

int main(int argc, char **argv) {
    char name[100];
    (void)argv;
    if (scanf("%99s", name) != 1) return 1;
    char text[200];
    snprintf(text, sizeof text, "%s %s", greeting(), name);
    for (char *c = text; *c; c++) putchar(argc > 1 ? tolower((unsigned char)*c) : *c);
    putchar('\n');
}
