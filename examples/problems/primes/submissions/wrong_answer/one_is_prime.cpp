// Takes 1 for a prime.
#include <iostream>
#include <vector>

int main()
{
    constexpr long long limit = 2'000'000;
    std::vector<bool> composite(limit + 1);
    std::vector<int> count(limit + 1);
    for (long long i = 1; i <= limit; i++) {
        count[i] = count[i - 1] + !composite[i];
        if (i > 1 && !composite[i])
            for (long long j = i * i; j <= limit; j += i)
                composite[j] = true;
    }
    int q;
    std::cin >> q;
    for (int x; q-- > 0 && std::cin >> x;)
        std::cout << count[x] << '\n';
}
