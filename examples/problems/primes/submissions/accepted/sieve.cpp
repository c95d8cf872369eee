#include <algorithm>
#include <iostream>
#include <vector>

int main()
{
    constexpr long long limit = 2'000'000;
    std::vector<bool> composite(limit + 1);
    std::vector<int> primes;
    for (long long i = 2; i <= limit; i++) {
        if (composite[i])
            continue;
        primes.push_back(static_cast<int>(i));
        for (long long j = i * i; j <= limit; j += i)
            composite[j] = true;
    }
    int q;
    std::cin >> q;
    for (int x; q-- > 0 && std::cin >> x;)
        std::cout << std::upper_bound(primes.begin(), primes.end(), x) - primes.begin() << '\n';
}
