#define A(x) x x x x x x x x
#define B(x) A(A(A(A(x))))
#define C(x) B(B(B(x)))
#define EMPTY
int main(void) { C(EMPTY ;) return 0; }
