#include <iostream>

int main() {
    int low = 1, high = 1000;
    for (std::string said = ""; said != "=";) {
        int middle = (low + high) / 2;
        std::cout << "? " << middle << std::endl;
        if (!(std::cin >> said)) return 0;
        (said == "<" ? high : low) = said == "<" ? middle - 1 : middle + 1;
    }
}
