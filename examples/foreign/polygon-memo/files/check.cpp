// The first run writes a memo of at most 20 characters, the second one gets nothing else and must say the number.
#include "testlib.h"

int main(int argc, char *argv[])
{
    registerTestlibCmd(argc, argv);
    if (inf.readToken() == "write") {
        std::string memo = ouf.readToken();
        if (memo.size() > 20)
            quitf(_wa, "the memo is too long");
        printf("read %s\n", memo.c_str());
        quitf(_ok, "the memo is %s", memo.c_str());
    }
    long long said = ouf.readLong(0, 1000000000000LL), wanted = ans.readLong(0, 1000000000000LL);
    quitf(said == wanted ? _ok : _wa, "%lld, expected %lld", said, wanted);
}
