// Several answers are right. The shorter way to write them is worth nothing: any two that add up will do.
#include "testlib.h"

int main(int argc, char *argv[])
{
    registerTestlibCmd(argc, argv);
    int sum = inf.readInt(2, 2000000000);
    int a = ouf.readInt(1, sum), b = ouf.readInt(1, sum);
    if (a != sum - b)
        quitf(_wa, "%d and %d are not %d", a, b, sum);
    quitf(_ok, "%d and %d", a, b);
}
