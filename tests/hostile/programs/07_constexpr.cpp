constexpr unsigned long spin(unsigned long n) {
    unsigned long sum = 0;
    for (unsigned long i = 0; i < n; i++)
        for (unsigned long j = 0; j < 200000; j++) sum += i ^ j;
    return sum;
}
#define TWICE(x) x x
#define MANY(x) TWICE(TWICE(TWICE(TWICE(TWICE(x)))))
#define NAME2(a, b) a##b
#define NAME(a, b) NAME2(a, b)
MANY(static constexpr auto NAME(v, __COUNTER__) = spin(100);)
int main() {}
