#warning "a line of some length that nobody wants to read, and then again and again and again and again"
#if __INCLUDE_LEVEL__ < 30
#include __FILE__
#include __FILE__
#endif
