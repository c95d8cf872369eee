#include <iostream>

int main() {
    int which, one, other;
    std::cin >> which >> one >> other;
    std::cout << (one ^ other) << std::endl;
}
