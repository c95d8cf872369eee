/* First pass: the output must be digits, and becomes the second pass's input. Second pass: it must be the word. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static char path[4096];

static FILE *feedback(const char *directory, const char *name, const char *mode) {
    snprintf(path, sizeof path, "%s%s", directory, name);
    return fopen(path, mode);
}

int main(int argc, char **argv) {
    char word[1024] = "", output[1024] = "", state[16] = "";
    if (argc < 4) return 1;
    FILE *answer = fopen(argv[2], "r");
    if (!answer || fscanf(answer, "%1000s", word) != 1) return 2;
    if (scanf("%1000s", output) != 1) return 43;
    FILE *log = feedback(argv[3], "judgemessage.txt", "a");
    FILE *sent = feedback(argv[3], "sent", "r");
    if (sent) {
        fprintf(log, "received %s\n", output);
        return strcmp(output, word) == 0 ? 42 : 43;
    }
    fprintf(log, "sent %s\n", output);
    for (const char *c = output; *c; c++)
        if (!isdigit((unsigned char)*c)) return 43;
    sent = feedback(argv[3], "sent", "w");
    FILE *next = feedback(argv[3], "nextpass.in", "w");
    if (!sent || !next) return 3;
    fprintf(sent, "%s\n", output);
    fprintf(next, "receive\n%s\n", output);
    (void)state;
    return 42;
}
