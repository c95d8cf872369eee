// Two numbers from 0 on whose sum is the first one of the input, in any order. There is no testlib.h beside it.
#include "testlib.h"
using namespace std;

int main(int argc, char *argv[])
{
    registerTestlibCmd(argc, argv);
    int sum = inf.readInt(1, 1000, "sum");
    vector<int> parts = ouf.readInts(2, 0, sum, "parts");
    if (parts[0] + parts[1] != sum)
        quitf(_wa, "%s add up to %d, not to %d", join(parts, " and ").c_str(), parts[0] + parts[1], sum);
    quitf(_ok, "%s", vtos(sum).c_str());
}
