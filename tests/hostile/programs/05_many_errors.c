#pragma GCC diagnostic error "-Wall"
#define A(n) int f##n(void) { return missing##n + also_missing##n; }
#define B(n) A(n##0) A(n##1) A(n##2) A(n##3) A(n##4) A(n##5) A(n##6) A(n##7) A(n##8) A(n##9)
#define C(n) B(n##0) B(n##1) B(n##2) B(n##3) B(n##4) B(n##5) B(n##6) B(n##7) B(n##8) B(n##9)
C(1) C(2) C(3) C(4) C(5)
