// Says "<", ">" or "=" to each guess, and records how many there were.
#include "testlib.h"

int main(int argc, char *argv[])
{
    registerInteraction(argc, argv);
    int hidden = inf.readInt(1, 1000);
    for (int count = 1; count <= 1000; count++) {
        int guess = ouf.readInt(1, 1000);
        printf("%s\n", guess < hidden ? "<" : guess > hidden ? ">" : "=");
        fflush(stdout);
        if (guess == hidden) {
            fprintf(tout, "%d\n", count);
            ouf.file = nullptr;
            quitf(_ok, "found after %d", count);
        }
    }
    quitf(_wa, "too many guesses");
}
