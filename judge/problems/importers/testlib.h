/* What checkers, interactors and validators of other judges usually call of a header of this name, written anew.
 *
 * It is put beside a program that includes it where the package brings none. The words, the exit codes (0 right, 1 and 2
 * wrong, 3 the judge's fault, 4 too much output, 7 points, 8 too little, 16 + N percents) and what is accepted as a number
 * are those that such programs count on; random numbers are others.
 */
#ifndef TESTLIB_H
#define TESTLIB_H
#include <algorithm>
#include <cassert>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <sstream>
#include <stack>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

enum TResult { _ok = 0, _wa = 1, _pe = 2, _fail = 3, _dirt = 4, _points = 5, _unexpected_eof = 8, _sv = 9, _partially = 16 };
enum TMode { _input, _output, _answer };
enum TTestlibMode { _unknown, _checker, _validator, _generator, _interactor };
typedef TMode TStreamMode;
#define _pc(part) (TResult(_partially + (part)))
#define LF ((char)10)
#define CR ((char)13)
#define TAB ((char)9)
#define SPACE ((char)' ')
#define EOFC (255)

static TTestlibMode testlibMode = _unknown;
static std::fstream tout;
static std::string testlib_case;

inline std::string testlib_vformat(const char *pattern, va_list given)
{
    va_list again;
    va_copy(again, given);
    int length = vsnprintf(NULL, 0, pattern, again);
    va_end(again);
    std::string text(length < 0 ? 0 : length, ' ');
    if (length > 0)
        vsnprintf(&text[0], length + 1, pattern, given);
    return text;
}

#define TESTLIB_TEXT(pattern, text)                \
    std::string text;                              \
    {                                              \
        va_list given_;                            \
        va_start(given_, pattern);                 \
        text = testlib_vformat(pattern, given_);   \
        va_end(given_);                            \
    }

inline std::string testlib_format(const char *pattern, ...)
{
    TESTLIB_TEXT(pattern, text)
    return text;
}
#if __cplusplus < 202002L
inline std::string format(const char *pattern, ...)
{
    TESTLIB_TEXT(pattern, text)
    return text;
}
inline std::string format(const std::string pattern, ...)
{
    va_list given;
    va_start(given, pattern);
    std::string text = testlib_vformat(pattern.c_str(), given);
    va_end(given);
    return text;
}
#else
template <class... T> inline std::string format(const char *pattern, T... given)
{
    return testlib_format(pattern, given...);
}
template <class... T> inline std::string format(const std::string &pattern, T... given)
{
    return testlib_format(pattern.c_str(), given...);
}
#endif

inline bool isBlanks(int c) { return c == LF || c == CR || c == TAB || c == SPACE; }
inline bool isEoln(int c) { return c == LF || c == CR; }
inline bool isBlanks(char c) { return isBlanks(int((unsigned char)c)); }
inline bool isEoln(char c) { return isEoln(int((unsigned char)c)); }
inline bool __testlib_isNaN(double x) { return std::isnan(x); }
inline bool __testlib_isInfinite(double x) { return std::isinf(x); }
inline bool isNaN(double x) { return std::isnan(x); }
inline bool isInfinite(double x) { return std::isinf(x); }

inline std::string compress(const std::string &text)
{
    return text.size() <= 64 ? text : text.substr(0, 30) + "..." + text.substr(text.size() - 31);
}
inline std::string __testlib_part(const std::string &text) { return compress(text); }

template <class T> inline std::string toString(const T &value)
{
    std::ostringstream text;
    text << value;
    return text.str();
}
template <class T> inline std::string vtos(const T &value) { return toString(value); }
inline std::string trim(const std::string &text)
{
    size_t begin = 0, end = text.size();
    while (begin < end && isBlanks(text[begin]))
        begin++;
    while (begin < end && isBlanks(text[end - 1]))
        end--;
    return text.substr(begin, end - begin);
}
inline std::string upperCase(std::string text)
{
    for (char &c : text)
        c = c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c;
    return text;
}
inline std::string lowerCase(std::string text)
{
    for (char &c : text)
        c = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
    return text;
}
/* The pieces between separators, also empty ones; tokenize leaves those out. */
inline std::vector<std::string> split(const std::string &text, const std::string &separators)
{
    std::vector<std::string> found(1);
    for (char c : text)
        if (separators.find(c) != std::string::npos)
            found.push_back("");
        else
            found.back() += c;
    return found;
}
inline std::vector<std::string> split(const std::string &text, char separator) { return split(text, std::string(1, separator)); }
inline std::vector<std::string> tokenize(const std::string &text, const std::string &separators)
{
    std::vector<std::string> found = split(text, separators);
    found.erase(std::remove(found.begin(), found.end(), std::string()), found.end());
    return found;
}
inline std::vector<std::string> tokenize(const std::string &text, char separator)
{
    return tokenize(text, std::string(1, separator));
}
template <class I, class S> inline std::string join(I begin, I end, S separator)
{
    std::ostringstream text;
    for (I one = begin; one != end; ++one) {
        if (one != begin)
            text << separator;
        text << *one;
    }
    return text.str();
}
template <class C, class S> inline std::string join(const C &all, S separator) { return join(all.begin(), all.end(), separator); }
template <class C> inline std::string join(const C &all) { return join(all.begin(), all.end(), ' '); }
inline std::string englishEnding(int number)
{
    static const char *const endings[] = {"th", "st", "nd", "rd"};
    number %= 100;
    return number / 10 == 1 || number % 10 > 3 ? "th" : endings[number % 10];
}
inline bool startsWith(const std::string &text, const std::string &what) { return text.compare(0, what.size(), what) == 0; }
inline bool endsWith(const std::string &text, const std::string &what)
{
    return text.size() >= what.size() && text.compare(text.size() - what.size(), what.size(), what) == 0;
}

inline double doubleDelta(double expected, double result)
{
    double absolute = std::fabs(result - expected);
    return std::fabs(expected) > 1e-9 ? std::min(absolute, std::fabs(absolute / expected)) : absolute;
}
/* Whether a result is near enough, absolutely or relatively. */
inline bool doubleCompare(double expected, double result, double most)
{
    const double slack = 1e-15;
    most += slack;
    if (std::isnan(expected) || std::isnan(result))
        return std::isnan(expected) && std::isnan(result);
    if (std::isinf(expected) || std::isinf(result))
        return expected == result;
    double low = std::min(expected * (1 - most), expected * (1 + most));
    double high = std::max(expected * (1 - most), expected * (1 + most));
    return std::fabs(result - expected) <= most || (result >= low - slack && result <= high + slack);
}

/* --- patterns: sequences of [sets], (groups) and letters with ? * + {n} {n,m}, alternatives between | ---------------- */

class pattern {
    struct Item {
        std::vector<bool> set;
        std::vector<std::vector<Item>> group;
        long least, most;
    };
    typedef std::vector<Item> Row;
    std::string text_;
    std::vector<Row> rows;

    static unsigned char letter(const std::string &s, size_t &at)
    {
        if (s[at] == '\\' && at + 1 < s.size())
            at++;
        return s[at++];
    }
    static std::vector<bool> set(const std::string &s, size_t &at)
    {
        std::vector<bool> found(256, false);
        bool outside = s[++at] == '^';
        at += outside;
        while (at < s.size() && s[at] != ']') {
            unsigned char first = letter(s, at), last = first;
            if (at + 1 < s.size() && s[at] == '-' && s[at + 1] != ']')
                last = letter(s, ++at);
            for (int c = first; c <= last; c++)
                found[c] = true;
        }
        at++;
        if (outside)
            found.flip();
        return found;
    }
    static void counts(const std::string &s, size_t &at, Item &item)
    {
        item.least = item.most = 1;
        char c = at < s.size() ? s[at] : 0;
        if (c == '?' || c == '*' || c == '+') {
            at++;
            item.least = c == '+';
            item.most = c == '?' ? 1 : LONG_MAX;
        } else if (c == '{') {
            size_t end = s.find('}', at), comma = s.find(',', at);
            item.least = item.most = std::atol(s.c_str() + at + 1);
            if (comma < end)
                item.most = comma + 1 == end ? LONG_MAX : std::atol(s.c_str() + comma + 1);
            at = end == std::string::npos ? s.size() : end + 1;
        }
    }
    static std::vector<Row> parse(const std::string &s, size_t &at)
    {
        std::vector<Row> found(1);
        while (at < s.size() && s[at] != ')') {
            Item item;
            if (s[at] == '|') {
                at++;
                found.push_back(Row());
                continue;
            }
            if (s[at] == ' ') {
                at++;
                continue;
            }
            if (s[at] == '(') {
                item.group = parse(s, ++at);
                at++;
            } else if (s[at] == '[') {
                item.set = set(s, at);
            } else {
                item.set.assign(256, false);
                item.set[letter(s, at)] = true;
            }
            counts(s, at, item);
            found.back().push_back(item);
        }
        return found;
    }
    static bool match(const std::vector<Row> &rows, const std::string &s, size_t at, const std::function<bool(size_t)> &then)
    {
        for (const Row &row : rows)
            if (match(row, 0, s, at, then))
                return true;
        return false;
    }
    static bool repeat(const Row &row, size_t i, long done, const std::string &s, size_t at, const std::function<bool(size_t)> &then)
    {
        const Item &item = row[i];
        if (done < item.most &&
            match(item.group, s, at, [&](size_t end) { return end > at && repeat(row, i, done + 1, s, end, then); }))
            return true;
        return done >= item.least && match(row, i + 1, s, at, then);
    }
    static bool match(const Row &row, size_t i, const std::string &s, size_t at, const std::function<bool(size_t)> &then)
    {
        if (i == row.size())
            return then(at);
        const Item &item = row[i];
        if (!item.group.empty())
            return repeat(row, i, 0, s, at, then);
        long count = 0;
        while (count < item.most && at + count < s.size() && item.set[(unsigned char)s[at + count]])
            count++;
        for (; count >= item.least; count--)
            if (match(row, i + 1, s, at + count, then))
                return true;
        return false;
    }

public:
    pattern(const std::string &text) : text_(text)
    {
        size_t at = 0;
        rows = parse(text, at);
    }
    bool matches(const std::string &s) const
    {
        return match(rows, s, 0, [&](size_t end) { return end == s.size(); });
    }
    std::string src() const { return text_; }
};

/* --- streams --------------------------------------------------------------------------------------------------------- */

struct InStream {
    FILE *file = NULL;
    TMode mode = _input;
    std::string name;
    bool strict = false, opened = false, ended = false;
    int line = 1;
    std::vector<int> back;

    void init(const std::string &path, TMode given)
    {
        file = fopen(path.c_str(), "rb");
        name = path;
        mode = given;
        opened = true;
    }
    void init(FILE *given, TMode how)
    {
        file = given;
        name = "stdin";
        mode = how;
        opened = true;
    }
    void close()
    {
        if (file != NULL)
            fclose(file);
        file = NULL;
        opened = false;
    }
    void reset()
    {
        if (file != NULL)
            rewind(file);
        back.clear();
    }

    int get()
    {
        if (!back.empty()) {
            int c = back.back();
            back.pop_back();
            return c;
        }
        int c = file == NULL ? EOF : getc(file);
        line += c == LF;
        return c;
    }
    int peek()
    {
        int c = get();
        back.push_back(c);
        return c;
    }
    char curChar() { return char(peek()); }
    char nextChar() { return char(get()); }
    void skipChar() { get(); }
    void unreadChar(int c) { back.push_back(c); }

    [[noreturn]] void quit(TResult result, const std::string &message);
    [[noreturn]] void quit(TResult result, const char *message) { quit(result, std::string(message)); }
    [[noreturn]] void quits(TResult result, const std::string &message) { quit(result, message); }
    [[noreturn]] void quitf(TResult result, const char *pattern, ...)
    {
        TESTLIB_TEXT(pattern, text)
        quit(result, text);
    }
    void quitif(bool condition, TResult result, const char *pattern, ...)
    {
        TESTLIB_TEXT(pattern, text)
        if (condition)
            quit(result, text);
    }
    void ensuref(bool condition, const char *pattern, ...)
    {
        TESTLIB_TEXT(pattern, text)
        if (!condition)
            quit(_wa, text);
    }

    void skipBlanks()
    {
        while (isBlanks(peek()))
            get();
    }
    bool eof() { return peek() == EOF; }
    bool seekEof()
    {
        skipBlanks();
        return eof();
    }
    bool eoln()
    {
        if (!strict && eof())
            return true;
        int c = get();
        if (c == LF)
            return true;
        if (!strict && c == CR && peek() == LF) {
            get();
            return true;
        }
        back.push_back(c);
        return false;
    }
    bool seekEoln()
    {
        while (peek() == SPACE || peek() == TAB)
            get();
        return eoln();
    }
    void nextLine() { readLine(); }
    void readEoln()
    {
        if (!eoln())
            quit(_pe, "Expected EOLN");
    }
    void readEof()
    {
        if (!eof())
            quit(_pe, "Expected EOF");
        ended = true;
    }
    char readChar()
    {
        int c = get();
        if (c == EOF)
            quit(_unexpected_eof, "Unexpected end of file - a character expected");
        return char(c);
    }
    char readChar(char wanted)
    {
        int c = get();
        if (c != (unsigned char)wanted)
            quit(_pe, std::string("Unexpected character, expected '") + wanted + "'");
        return wanted;
    }
    char readSpace() { return readChar(' '); }

    /* Words. */
    void readTokenTo(std::string &word)
    {
        if (!strict)
            skipBlanks();
        word.clear();
        int c = get();
        while (c != EOF && !isBlanks(c)) {
            word += char(c);
            c = get();
        }
        back.push_back(c);
        if (word.empty() && c == EOF)
            quit(_unexpected_eof, "Unexpected end of file - token expected");
        if (word.empty())
            quit(_pe, "Unexpected white-space - token expected");
    }
    std::string readToken()
    {
        std::string word;
        readTokenTo(word);
        return word;
    }
    std::string readToken(const pattern &wanted, const std::string &what = "")
    {
        std::string word = readToken();
        checked(word, wanted, what, "Token");
        return word;
    }
    std::string readToken(const std::string &wanted, const std::string &what = "") { return readToken(pattern(wanted), what); }
    void readTokenTo(std::string &word, const std::string &wanted, const std::string &what = "") { word = readToken(wanted, what); }
    std::string readWord() { return readToken(); }
    std::string readWord(const pattern &wanted, const std::string &what = "") { return readToken(wanted, what); }
    std::string readWord(const std::string &wanted, const std::string &what = "") { return readToken(wanted, what); }
    void readWordTo(std::string &word) { readTokenTo(word); }
    void readWordTo(std::string &word, const std::string &wanted, const std::string &what = "") { word = readToken(wanted, what); }

    /* Lines. */
    void readStringTo(std::string &text)
    {
        text.clear();
        if (eof())
            quit(_unexpected_eof, "Expected line");
        int c = get();
        while (c != EOF && !isEoln(c)) {
            text += char(c);
            c = get();
        }
        back.push_back(c);
        if (strict)
            readEoln();
        else
            eoln();
    }
    void readLineTo(std::string &text) { readStringTo(text); }
    std::string readString()
    {
        std::string text;
        readStringTo(text);
        return text;
    }
    std::string readString(const std::string &wanted, const std::string &what = "")
    {
        std::string text = readString();
        checked(text, pattern(wanted), what, "Line");
        return text;
    }
    std::string readLine() { return readString(); }
    std::string readLine(const std::string &wanted, const std::string &what = "") { return readString(wanted, what); }

    /* Numbers: whole ones without a plus sign or needless zeros, and no -0. */
    long long readLong()
    {
        std::string word = readToken();
        bool minus = word[0] == '-';
        std::string digits = word.substr(minus);
        unsigned long long value = 0;
        if (!whole(digits, value) || (minus && value == 0) || value > 9223372036854775807ull + minus)
            quit(_pe, "Expected integer, but \"" + compress(word) + "\" found");
        return minus ? (long long)(0 - value) : (long long)value;
    }
    unsigned long long readUnsignedLong()
    {
        std::string word = readToken();
        unsigned long long value = 0;
        if (!whole(word, value))
            quit(_pe, "Expected unsigned integer, but \"" + compress(word) + "\" found");
        return value;
    }
    int readInteger()
    {
        long long value = readLong();
        if (value < INT_MIN || value > INT_MAX)
            quit(_pe, "Expected int32, but \"" + toString(value) + "\" found");
        return int(value);
    }
    int readInt() { return readInteger(); }
    long long readLong(long long least, long long most, const std::string &what = "") { return ranged(readLong(), least, most, what); }
    unsigned long long readUnsignedLong(unsigned long long least, unsigned long long most, const std::string &what = "")
    {
        return ranged(readUnsignedLong(), least, most, what);
    }
    int readInt(int least, int most, const std::string &what = "") { return ranged(readInteger(), least, most, what); }
    int readInteger(int least, int most, const std::string &what = "") { return readInt(least, most, what); }
    double readDouble()
    {
        std::string word = readToken();
        char *end = NULL;
        double value = std::strtod(word.c_str(), &end);
        bool known = word.find_first_not_of("0123456789.eE+-") == std::string::npos;
        if (!known || *end != 0 || end == word.c_str() || !std::isfinite(value))
            quit(_pe, "Expected double, but \"" + compress(word) + "\" found");
        return value;
    }
    double readReal() { return readDouble(); }
    double readDouble(double least, double most, const std::string &what = "") { return ranged(readDouble(), least, most, what); }
    double readReal(double least, double most, const std::string &what = "") { return readDouble(least, most, what); }
    double readStrictDouble(double least, double most, int fewest, int digits, const std::string &what = "")
    {
        std::string word = readToken();
        size_t begin = word[0] == '-', point = word.find('.');
        std::string front = word.substr(begin, point == std::string::npos ? point : point - begin);
        std::string behind = point == std::string::npos ? "" : word.substr(point + 1);
        unsigned long long ignored;
        bool good = !front.empty() && front.size() < 20 && whole(front, ignored) && (point == std::string::npos || !behind.empty()) &&
                    behind.find_first_not_of("0123456789") == std::string::npos && int(behind.size()) >= fewest && int(behind.size()) <= digits;
        double value = good ? std::strtod(word.c_str(), NULL) : 0;
        if (!good || (begin && value == 0))
            quit(_pe, "Expected strict double, but \"" + compress(word) + "\" found");
        return ranged(value, least, most, what);
    }
    double readStrictReal(double least, double most, int fewest, int digits, const std::string &what = "")
    {
        return readStrictDouble(least, most, fewest, digits, what);
    }

#define TESTLIB_MANY(type, many, one)                                                                              \
    std::vector<type> many(int count, type least, type most, const std::string &what = "", int = 1)                 \
    {                                                                                                              \
        return several<type>(count, true, [&]() { return one(least, most, what); });                               \
    }                                                                                                              \
    std::vector<type> many(int count) { return several<type>(count, true, [&]() { return one(); }); }
    TESTLIB_MANY(long long, readLongs, readLong)
    TESTLIB_MANY(unsigned long long, readUnsignedLongs, readUnsignedLong)
    TESTLIB_MANY(int, readInts, readInt)
    TESTLIB_MANY(int, readIntegers, readInt)
    TESTLIB_MANY(double, readDoubles, readDouble)
    TESTLIB_MANY(double, readReals, readDouble)
#undef TESTLIB_MANY
#define TESTLIB_MANY(many, one, spaced)                                                                                    \
    std::vector<std::string> many(int count, const std::string &wanted, const std::string &what = "", int = 1)      \
    {                                                                                                              \
        return several<std::string>(count, spaced, [&]() { return one(wanted, what); });                           \
    }                                                                                                              \
    std::vector<std::string> many(int count) { return several<std::string>(count, spaced, [&]() { return one(); }); }
    TESTLIB_MANY(readTokens, readToken, true)
    TESTLIB_MANY(readWords, readToken, true)
    TESTLIB_MANY(readStrings, readString, false)
    TESTLIB_MANY(readLines, readString, false)
#undef TESTLIB_MANY

private:
    static bool whole(const std::string &digits, unsigned long long &value)
    {
        bool zeros = digits.size() > 1 && digits[0] == '0';
        if (digits.empty() || digits.size() > 20 || zeros || digits.find_first_not_of("0123456789") != std::string::npos)
            return false;
        errno = 0;
        value = std::strtoull(digits.c_str(), NULL, 10);
        return errno == 0;
    }
    template <class T> T ranged(T value, T least, T most, const std::string &what)
    {
        if (!(value >= least && value <= most))
            quit(_wa, "Parameter " + (what.empty() ? "" : "[name=" + what + "] ") + "equals to " + toString(value) +
                          ", violates the range [" + toString(least) + ", " + toString(most) + "]");
        return value;
    }
    void checked(const std::string &text, const pattern &wanted, const std::string &what, const char *kind)
    {
        if (!wanted.matches(text))
            quit(_wa, std::string(kind) + " parameter " + (what.empty() ? "" : "[name=" + what + "] ") + "equals to \"" +
                          compress(text) + "\", doesn't correspond to pattern \"" + wanted.src() + "\"");
    }
    template <class T, class F> std::vector<T> several(int count, bool spaced, F one)
    {
        std::vector<T> found;
        for (int i = 0; i < count; i++) {
            if (strict && spaced && i > 0)
                readSpace();
            found.push_back(one());
        }
        return found;
    }
};

static InStream inf, ouf, ans;

inline void InStream::quit(TResult result, const std::string &message)
{
    /* Whatever is wrong with an input or an answer is no fault of the submission. */
    if (mode != _output && result != _fail && this != &ouf)
        result = _fail;
    std::string text = message;
    if (result == _ok && testlibMode == _checker && !ouf.seekEof()) {
        result = _dirt;
        text = "Extra information in the output file";
    }
    static const std::map<int, const char *> words = {
        {_ok, "ok "}, {_wa, "wrong answer "}, {_pe, "wrong output format "}, {_fail, "FAIL "}, {_dirt, "wrong output format "},
        {_points, "points "}, {_unexpected_eof, "unexpected eof "}, {_sv, "security violation "},
    };
    std::string word = result >= _partially ? "partially correct (" + toString(int(result) - _partially) + ") " : words.at(result);
    if (mode != _output && this != &ouf)
        text += " (" + name + (testlibMode == _validator ? ", line " + toString(line) : "") + ")";
    std::cout.flush();
    fflush(stdout);
    tout.flush();
    std::cerr << word << (result == _points ? "" : testlib_case) << text << std::endl;
    std::_Exit(result == _points ? 7 : result == _sv ? int(_wa) : int(result));
}

[[noreturn]] inline void quit(TResult result, const std::string &message) { ouf.quit(result, message); }
[[noreturn]] inline void quit(TResult result, const char *message = "") { ouf.quit(result, std::string(message)); }
[[noreturn]] inline void quitf(TResult result, const char *pattern, ...)
{
    TESTLIB_TEXT(pattern, text)
    ouf.quit(result, text);
}
inline void quitif(bool condition, TResult result, const char *pattern, ...)
{
    TESTLIB_TEXT(pattern, text)
    if (condition)
        ouf.quit(result, text);
}
inline std::string testlib_points(double points)
{
    std::string text = testlib_format("%.10f", points);
    text.erase(text.find_last_not_of('0') + 1);
    return text.back() == '.' ? text.substr(0, text.size() - 1) : text;
}
[[noreturn]] inline void quitp(double points, const std::string &message = "")
{
    ouf.quit(_points, testlib_points(points) + (message.empty() ? "" : " " + message));
}
template <class F, class... T> [[noreturn]] inline void quitp(F points, const char *pattern, T... given)
{
    quitp(double(points), testlib_format(pattern, given...));
}
inline void quitpi(const std::string &info, const std::string &message = "")
{
    ouf.quit(_points, info + (message.empty() ? "" : " " + message));
}
template <class... T> inline void quitpi(const std::string &info, const char *pattern, T... given)
{
    quitpi(info, testlib_format(pattern, given...));
}
inline void __testlib_fail(const std::string &message) { quit(_fail, message); }
#define ensure(condition)                                              \
    do {                                                               \
        if (!(condition))                                              \
            quit(_fail, "Condition failed: \"" #condition "\"");       \
    } while (0)
#define ensure_ext ensure
#define __testlib_ensure(condition, message) \
    do {                                     \
        if (!(condition))                    \
            quit(_fail, message);            \
    } while (0)
inline void ensuref(bool condition, const char *pattern, ...)
{
    TESTLIB_TEXT(pattern, text)
    if (!condition)
        quit(_fail, text);
}
inline void setTestCase(int number) { testlib_case = "test case " + toString(number) + ": "; }
inline void unsetTestCase() { testlib_case.clear(); }
inline void setName(const char *, ...) {}
inline void setAppesModeEncoding(const std::string &) {}
/* A program that ends without a word has not decided. */
struct testlib_guard {
    bool off = false;
    ~testlib_guard()
    {
        bool silent = testlibMode == _checker || testlibMode == _interactor;
        if (off || !(silent || (testlibMode == _validator && !inf.ended)))
            return;
        std::cerr << (silent ? "FAIL No quit" : "FAIL No readEof") << " call found" << std::endl;
        std::_Exit(3);
    }
};
static testlib_guard testlib_end;
inline void disableFinalizeGuard() { testlib_end.off = true; }
inline void addCheckerPart(const std::string &) {}

/* --- random numbers, which are others than there ---------------------------------------------------------------------- */

class random_t {
    std::mt19937_64 engine{3905348978240129619ull};

public:
    void setSeed(int count, char *words[])
    {
        uint64_t seed = 1469598103934665603ull;
        for (int i = 1; i < count; i++)
            for (const char *c = words[i]; *c; c++)
                seed = (seed ^ (unsigned char)*c) * 1099511628211ull;
        engine.seed(seed);
    }
    void setSeed(long long seed) { engine.seed(uint64_t(seed)); }
    long long next(long long below) { return next(0LL, below - 1); }
    int next(int below) { return int(next(0LL, below - 1LL)); }
    unsigned int next(unsigned int below) { return unsigned(next(0LL, below - 1LL)); }
    long next(long below) { return long(next(0LL, below - 1LL)); }
    unsigned long next(unsigned long below) { return next(0LL, (long long)below - 1); }
    unsigned long long next(unsigned long long below) { return next(0LL, (long long)below - 1); }
    long long next(long long least, long long most) { return std::uniform_int_distribution<long long>(least, most)(engine); }
    int next(int least, int most) { return int(next((long long)least, (long long)most)); }
    long next(long least, long most) { return long(next((long long)least, (long long)most)); }
    double next() { return std::uniform_real_distribution<double>(0, 1)(engine); }
    double next(double below) { return next() * below; }
    double next(double least, double most) { return least + next() * (most - least); }
    template <class T> T wnext(T below, int type) { return weighed(T(0), T(below - 1), type); }
    template <class T> T wnext(T least, T most, int type) { return weighed(least, most, type); }
    template <class C> typename C::value_type any(const C &all) { return *std::next(all.begin(), next((long long)all.size())); }
    template <class I> typename std::iterator_traits<I>::value_type any(I begin, I end)
    {
        return *std::next(begin, next((long long)std::distance(begin, end)));
    }
    template <class C> typename C::value_type wany(const C &all, int type)
    {
        return *std::next(all.begin(), wnext((long long)all.size(), type));
    }
    template <class I> typename std::iterator_traits<I>::value_type wany(I begin, I end, int type)
    {
        return *std::next(begin, wnext((long long)std::distance(begin, end), type));
    }
    template <class T, class E = T> std::vector<E> perm(T count, E first = E(0))
    {
        std::vector<E> found(count);
        for (size_t i = 0; i < found.size(); i++)
            found[i] = E(first + i);
        std::shuffle(found.begin(), found.end(), engine);
        return found;
    }
    template <class I> void mix(I begin, I end) { std::shuffle(begin, end, engine); }

private:
    /* The largest, or smallest, of several draws. Of many it is one draw from that one's distribution. */
    template <class T> T weighed(T least, T most, int type)
    {
        if (std::abs((long long)type) >= 25) {
            double far = std::pow(next(), 1.0 / (std::abs((long long)type) + 1.0)), span = double(most) - double(least);
            double at = (type > 0 ? far : 1 - far) * (span + std::is_integral<T>::value);
            if (at >= span)
                return most;
            // As unsigned numbers: between the bounds of the widest type there are more than it can tell.
            return std::is_integral<T>::value ? T((unsigned long long)least + (unsigned long long)at) : T(least + T(at));
        }
        T found = next(least, most);
        for (int i = 0; i < std::abs(type); i++)
            found = type > 0 ? std::max(found, T(next(least, most))) : std::min(found, T(next(least, most)));
        return found;
    }
};
static random_t rnd;
template <class I> inline void shuffle(I begin, I end) { rnd.mix(begin, end); }

/* --- what generators are told, and print ------------------------------------------------------------------------------ */

static std::vector<std::string> testlib_words;
static std::map<std::string, std::string> testlib_options;
/* 1: `-x`, 2: `--x`, 0: no option. */
inline size_t testlib_dashes(const std::string &word)
{
    for (size_t dashes = 1; dashes <= 2; dashes++)
        if (word.size() > dashes && word.find_first_not_of('-') == dashes && isalpha((unsigned char)word[dashes]))
            return dashes;
    return 0;
}
inline void prepareOpts(int count, char *words[])
{
    testlib_words.assign(words, words + count);
    for (size_t i = 1; i < testlib_words.size(); i++) {
        const size_t dashes = testlib_dashes(testlib_words[i]);
        if (!dashes)
            continue;
        std::string key = testlib_words[i].substr(dashes), value = "true";
        const size_t equals = key.find('=');
        if (equals != std::string::npos) {
            value = key.substr(equals + 1);
            key.resize(equals);
        } else if (i + 1 < testlib_words.size() && !testlib_dashes(testlib_words[i + 1])) {
            value = testlib_words[++i];
        } else if (key.size() > 1 && isdigit((unsigned char)key[1])) {
            value = key.substr(1);
            key.resize(1);
        }
        testlib_options[key] = value;
    }
}
template <class T> inline T testlib_value(const std::string &said, const std::string &name)
{
    T found;
    std::istringstream stream(said);
    if (!(stream >> found) || !(stream >> std::ws).eof())
        quit(_fail, "option " + name + " is '" + said + "', which is of another type");
    return found;
}
template <> inline std::string testlib_value<std::string>(const std::string &said, const std::string &) { return said; }
template <> inline bool testlib_value<bool>(const std::string &said, const std::string &name)
{
    if (said != "true" && said != "1" && said != "false" && said != "0")
        quit(_fail, "option " + name + " is '" + said + "', which is neither true nor false");
    return said == "true" || said == "1";
}
inline bool has_opt(const std::string &key) { return testlib_options.count(key) > 0; }
inline bool has_opt(size_t index) { return index < testlib_words.size(); }
template <class T> inline T opt(const std::string &key)
{
    if (!has_opt(key))
        quit(_fail, "option " + key + " is not given");
    return testlib_value<T>(testlib_options[key], key);
}
template <class T> inline T opt(size_t index)
{
    if (!has_opt(index))
        quit(_fail, "argument " + std::to_string(index) + " is not given");
    return testlib_value<T>(testlib_words[index], std::to_string(index));
}
template <class T> inline T opt(int index) { return opt<T>(size_t(index)); }
template <class T> inline T opt(const std::string &key, const T &otherwise) { return has_opt(key) ? opt<T>(key) : otherwise; }
template <class T> inline T opt(int index, const T &otherwise) { return has_opt(size_t(index)) ? opt<T>(index) : otherwise; }
inline std::string opt(const std::string &key) { return opt<std::string>(key); }
inline std::string opt(int index) { return opt<std::string>(size_t(index)); }

inline void testlib_show(const std::string &text, int) { std::cout << text; }
inline void testlib_show(const char *text, int) { std::cout << text; }
template <class T> inline void testlib_show(const T &one, long) { std::cout << one; }
template <class I> inline void testlib_range(I begin, I end)
{
    for (I one = begin; one != end; ++one) {
        if (one != begin)
            std::cout << ' ';
        std::cout << *one;
    }
}
template <class C> inline auto testlib_show(const C &all, int) -> decltype(all.begin(), void()) { testlib_range(all.begin(), all.end()); }
template <class T> struct testlib_void { typedef void type; };
template <class T, class = void> struct testlib_iterates : std::false_type {};
template <class T> struct testlib_iterates<T, typename testlib_void<typename std::iterator_traits<T>::iterator_category>::type>
    : std::integral_constant<bool, !std::is_same<T, const char *>::value && !std::is_same<T, char *>::value> {};
inline void println() { std::cout << std::endl; }
template <class T> inline void println(const T &one)
{
    testlib_show(one, 0);
    println();
}
template <class T> inline void testlib_two(const T &begin, const T &end, std::true_type)
{
    testlib_range(begin, end);
    println();
}
template <class T, class U> inline void testlib_two(const T &one, const U &other, std::false_type)
{
    testlib_show(one, 0);
    std::cout << ' ';
    println(other);
}
template <class T, class U> inline void println(T one, U other)
{
    testlib_two(one, other, std::integral_constant<bool, std::is_same<T, U>::value && testlib_iterates<T>::value>());
}
template <class T, class U, class V, class... More> inline void println(const T &one, const U &other, const V &third, const More &...more)
{
    testlib_show(one, 0);
    std::cout << ' ';
    testlib_show(other, 0);
    std::cout << ' ';
    println(third, more...);
}

/* --- how programs begin ----------------------------------------------------------------------------------------------- */

struct Validator {
    std::string testset_, group_;
    std::string testset() const { return testset_; }
    std::string group() const { return group_; }
    void addBoundsHit(const std::string &, const std::string &) {}
};
static Validator validator;

inline void testlib_open(InStream &stream, const char *path, TMode mode)
{
    stream.init(path, mode);
    if (stream.file == NULL) {
        std::cerr << "FAIL cannot open " << path << std::endl;
        std::_Exit(3);
    }
}
inline void registerTestlibCmd(int count, char *words[])
{
    testlibMode = _checker;
    ouf.mode = _output;
    if (count < 4)
        quit(_fail, "expected the names of input, output and answer");
    testlib_open(inf, words[1], _input);
    testlib_open(ouf, words[2], _output);
    testlib_open(ans, words[3], _answer);
}
inline void registerTestlib(int count, ...)
{
    char *words[4] = {NULL, NULL, NULL, NULL};
    va_list given;
    va_start(given, count);
    for (int i = 1; i <= count && i < 4; i++)
        words[i] = va_arg(given, char *);
    va_end(given);
    registerTestlibCmd(count + 1, words);
}
/* What checkers of IOI tasks call: a grader's output begins with a word that submissions do not know, then OK. */
inline void registerChecker(const std::string &, int count, char *words[]) { registerTestlibCmd(count, words); }
inline void readSecret(InStream &from, const std::string &secret)
{
    if (from.readWord() != secret)
        from.quit(_sv, "the output is not the grader's");
    from.readEoln();
}
inline void readBothSecrets(const std::string &secret)
{
    readSecret(ans, secret);
    readSecret(ouf, secret);
}
inline void readGraderResult(InStream &from)
{
    std::string word = from.readWord();
    from.readEoln();
    if (word == "OK")
        return;
    std::string text = from.eof() ? "said by the grader" : from.readLine();
    from.quit(word == "WA" ? _wa : word == "SV" ? _sv : _fail, text);
}
inline void readBothGraderResults()
{
    readGraderResult(ans);
    readGraderResult(ouf);
}
/* The rest must be the same, line by line; `number` is that of the first one. */
[[noreturn]] inline void compareRemainingLines(int number = 1)
{
    for (; !ans.seekEof() || !ouf.seekEof(); number++) {
        std::string wanted = ans.seekEof() ? "" : ans.readLine(), found = ouf.seekEof() ? "" : ouf.readLine();
        if (trim(wanted) != trim(found))
            quitf(_wa, "line %d differs: expected '%s', found '%s'", number, compress(wanted).c_str(), compress(found).c_str());
    }
    quit(_ok);
}
inline void registerInteraction(int count, char *words[])
{
    testlibMode = _interactor;
    ouf.mode = _output;
    if (count < 3)
        quit(_fail, "expected the names of input and output");
    testlib_open(inf, words[1], _input);
    tout.open(words[2], std::ios_base::out);
    if (tout.fail())
        quit(_fail, std::string("cannot write ") + words[2]);
    ouf.init(stdin, _output);
    if (count > 3)
        testlib_open(ans, words[3], _answer);
    else
        ans.mode = _answer;
}
inline void registerValidation()
{
    testlibMode = _validator;
    ouf.mode = _output;
    inf.init(stdin, _input);
    inf.strict = true;
}
inline void registerValidation(int count, char *words[])
{
    registerValidation();
    for (int i = 1; i + 1 < count; i++) {
        if (!strcmp(words[i], "--testset"))
            validator.testset_ = words[i + 1];
        if (!strcmp(words[i], "--group"))
            validator.group_ = words[i + 1];
    }
}
inline void registerGen(int count, char *words[], int = 1)
{
    testlibMode = _generator;
    prepareOpts(count, words);
    rnd.setSeed(count, words);
}
#endif
