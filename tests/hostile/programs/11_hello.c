#include <stdio.h>
int main(void) { return puts("safe") < 0; }
