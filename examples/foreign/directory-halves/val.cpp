#include "testlib.h"

int main(int argc, char *argv[])
{
    registerValidation(argc, argv);
    int sum = inf.readInt(1, 1000, "sum");
    inf.readSpace();
    inf.readInt(1, sum, "part");
    inf.readEoln();
    inf.readEof();
}
