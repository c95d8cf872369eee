// checker INPUT OUTPUT ANSWER: 0 is right, 1 is wrong.
#include <fstream>
#include <string>

int main(int, char *argv[])
{
    std::ifstream output(argv[2]), answer(argv[3]);
    long long said = -1, wanted;
    std::string rest;
    answer >> wanted;
    return output >> said && !(output >> rest) && said == wanted ? 0 : 1;
}
