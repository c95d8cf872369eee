// Divides by the number itself, and the first question of the secret tests is about zero: killed by SIGFPE.
#include <iostream>

int main()
{
    int q;
    std::cin >> q;
    for (int x; q-- > 0 && std::cin >> x;) {
        int count = 0;
        for (int i = 1; i <= 100 / x * x; i++) {
            bool prime = i > 1 && i <= x;
            for (int j = 2; j < i && prime; j++)
                prime = i % j != 0;
            count += prime;
        }
        std::cout << count << '\n';
    }
}
