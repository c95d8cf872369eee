template <int N, long M> struct Tree { static constexpr long value = Tree<N - 1, 2 * M>::value + Tree<N - 1, 2 * M + 1>::value; };
template <long M> struct Tree<0, M> { static constexpr long value = M; };
int main() { return Tree<40, 1>::value; }
