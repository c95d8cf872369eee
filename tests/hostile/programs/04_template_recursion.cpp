template <typename T> struct Deep { using type = typename Deep<Deep<T>>::type; };
Deep<int>::type x;
int main() {}
