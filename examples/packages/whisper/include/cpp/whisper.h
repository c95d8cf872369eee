#include <string>

std::string encode(int number);
int decode(std::string bits);
