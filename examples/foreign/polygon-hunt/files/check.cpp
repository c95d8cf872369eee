// Looks at the interactor's record: as many guesses as halving needs, at most.
#include "testlib.h"

int main(int argc, char *argv[])
{
    registerTestlibCmd(argc, argv);
    int count = ouf.readInt(1, 1000), most = ans.readInt(1, 1000);
    if (count > most)
        quitf(_wa, "%d guesses, %d would do", count, most);
    quitf(_ok, "%d guesses", count);
}
