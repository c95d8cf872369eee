#include <algorithm>
#include <cstdio>
#include <vector>

int main() {
    int n;
    if (scanf("%d", &n) != 1) return 1;
    std::vector<int> a(n);
    for (int &x : a)
        if (scanf("%d", &x) != 1) return 1;
    std::sort(a.begin(), a.end());
    int most = 0;
    for (int i = 1; i < n; i++) most = std::max(most, a[i] - a[i - 1]);
    printf("%d\n", most);
}
