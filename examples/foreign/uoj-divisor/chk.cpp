#include "testlib.h"

// Any divisor but 1 and the number itself.
int main(int argc, char **argv) {
    registerTestlibCmd(argc, argv);
    int number = inf.readInt();
    int said = ouf.readInt(2, number - 1, "divisor");
    if (number % said) quitf(_wa, "%d is no divisor", said);
    quitf(_ok, "%d", said);
}
