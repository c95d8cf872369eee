#include "feedback.h"

#include <fstream>

int reject(const std::string &directory, const std::string &why) {
    std::ofstream(directory + "judgemessage.txt") << why << "\n";
    std::ofstream(directory + "teammessage.txt") << "This is not a pair that was asked for.\n";
    return 43;
}
