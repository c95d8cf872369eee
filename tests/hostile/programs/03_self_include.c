#if __INCLUDE_LEVEL__ < 26
#include __FILE__
#include __FILE__
#endif
int x;
