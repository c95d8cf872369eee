#include <cstdio>
#include <cstdlib>
#include "decoder.h"
#include "encoder.h"
#include "manager.h"

static FILE *channel;
static int sent;

void send(int byte) {
    if (byte < 0 || byte > 255 || ++sent > 8) exit(1);
    fprintf(channel, "%d\n", byte);
}

int main(int, char **argv) {
    if (argv[1][0] == '0') {
        long long number;
        channel = fopen(argv[2], "w");
        if (scanf("%lld", &number) == 1) encode(number);
    } else {
        int bytes[8], count = 0;
        channel = fopen(argv[2], "r");
        while (count < 8 && fscanf(channel, "%d", &bytes[count]) == 1) count++;
        printf("%lld\n", decode(count, bytes));
    }
    return fclose(channel);
}
