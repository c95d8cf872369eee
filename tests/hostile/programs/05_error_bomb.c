#define A(x) x##1 x##2 x##3 x##4
#define B(x) A(x##1) A(x##2) A(x##3) A(x##4)
#define C(x) B(x##1) B(x##2) B(x##3) B(x##4)
#define D(x) C(x##1) C(x##2) C(x##3) C(x##4)
#define E(x) D(x##1) D(x##2) D(x##3) D(x##4)
#define F(x) E(x##1) E(x##2) E(x##3) E(x##4)
#define G(x) F(x##1) F(x##2) F(x##3) F(x##4)
#define H(x) G(x##1) G(x##2) G(x##3) G(x##4)
#define I(x) H(x##1) H(x##2) H(x##3) H(x##4)
#define J(x) I(x##1) I(x##2) I(x##3) I(x##4)
int main(void) { J(undeclared) }
