/* The part of testlib's interface that the examples use, so that they need nothing from elsewhere. */
#ifndef EXAMPLE_TESTLIB_H
#define EXAMPLE_TESTLIB_H
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

enum TResult { _ok = 0, _wa = 1, _pe = 2, _fail = 3, _points = 7 };

struct InStream {
    FILE *file = nullptr;
    TResult fault = _fail;

    bool seekEof()
    {
        int c;
        while ((c = getc(file)) != EOF)
            if (c > ' ') {
                ungetc(c, file);
                return false;
            }
        return true;
    }
    std::string readToken()
    {
        char word[256];
        if (fscanf(file, "%255s", word) != 1)
            end("a word is missing");
        return word;
    }
    long long readLong(long long low, long long high)
    {
        std::string word = readToken();
        char *rest;
        long long value = strtoll(word.c_str(), &rest, 10);
        if (*rest || value < low || value > high)
            end("'" + word + "' is not such a number");
        return value;
    }
    int readInt(int low, int high) { return (int)readLong(low, high); }
    void end(const std::string &why)
    {
        fprintf(stderr, "%s\n", why.c_str());
        exit(fault);
    }
};

static InStream inf, ouf, ans;
static FILE *tout;

__attribute__((format(printf, 2, 3))) static void quitf(TResult result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    if (result == _ok && ouf.file && !ouf.seekEof())
        exit(_pe);
    if (tout)
        fclose(tout);
    exit(result);
}

static void quitp(double points, const char *why)
{
    fprintf(stderr, "points %g %s\n", points, why);
    exit(_points);
}

static void registerTestlibCmd(int argc, char **argv)
{
    if (argc < 4)
        exit(_fail);
    inf.file = fopen(argv[1], "r");
    ouf.file = fopen(argv[2], "r");
    ans.file = fopen(argv[3], "r");
    ouf.fault = _wa;
}

static void registerInteraction(int argc, char **argv)
{
    if (argc < 3)
        exit(_fail);
    inf.file = fopen(argv[1], "r");
    tout = fopen(argv[2], "w");
    ouf.file = stdin;
    ouf.fault = _wa;
}

static void registerValidation(int, char **)
{
    inf.file = stdin;
}
#endif
