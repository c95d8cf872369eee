#include <fstream>
#include <string>
#include "whisper.h"

int main(int argc, char **argv) {
    std::ifstream in(argv[1]);
    std::ofstream out(argv[2]);
    int number;
    std::string bits;
    if (argc > 3 && std::string(argv[3]) == "0") {
        if (in >> number) out << encode(number) << std::endl;
    } else if (in >> bits) {
        out << decode(bits) << std::endl;
    }
}
