#ifndef BITS_H
#define BITS_H
typedef unsigned int word;
int bits(word number);
#endif
