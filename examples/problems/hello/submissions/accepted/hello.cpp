#include <iostream>
#include <string>

int main()
{
    int n;
    std::cin >> n;
    for (std::string name; n-- > 0 && std::cin >> name;)
        std::cout << "Hello, " << name << "!\n";
}
