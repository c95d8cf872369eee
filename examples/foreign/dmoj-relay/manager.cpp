#include <csignal>
#include <fstream>
#include <iostream>

// The first process hears two numbers and says one; the second hears that one, and the first of the two.
int main(int, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    int first, second, said = -1, found = -1;
    std::cin >> first >> second;
    std::ofstream to0(argv[2]);
    std::ifstream from0(argv[1]);
    std::ofstream to1(argv[4]);
    std::ifstream from1(argv[3]);
    to0 << "0 " << first << ' ' << second << std::endl;
    from0 >> said;
    to1 << "1 " << said << ' ' << first << std::endl;
    from1 >> found;
    std::cout << (found == second ? "1.0" : "0.0") << std::endl;
    std::cerr << (found == second ? "translate:success" : "the second process does not know it") << std::endl;
}
