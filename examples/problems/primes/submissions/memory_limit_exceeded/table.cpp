// Keeps a table that no limit allows, and touches all of it.
#include <cstdio>
#include <vector>

int main()
{
    std::vector<std::vector<long long>> rows;
    for (int i = 0; i < 4096; i++)
        rows.emplace_back(1 << 17, i);
    std::printf("%zu\n", rows.size());
}
