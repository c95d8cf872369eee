/* An output validator of the package format (INPUT ANSWER FEEDBACK/ [flags] < output; exit code 42 or 43) that asks
 * programs of other judges: ./checker about an output, ./interactor while the submission runs, or one after the other.
 *
 * What they are told, and what their exit codes mean, is chosen when this is compiled:
 *   CHECKER, INTERACTOR  the files that they are told, as letters: i input, o output (or the interactor's record), a answer
 *   PLAIN                0 is right and 1 is wrong; else testlib's codes hold: 0 right; 1, 2, 4, 8 wrong; 3 its own fault;
 *                        7 with a line "points X": X points; 16 + N: N percent, up to 100
 *   COCI                 7 with a line "partial X/Y" is that part, and "points X" says nothing
 *   PEG                  as PLAIN, but 1 with two lines of a whole number each, one after the other, is that part
 *   LQDOJ                0 is right, 1 and 4 are wrong, 3 is its own fault, and 2 is the share from 0 to 1 with which the
 *                        first line that begins with a number on standard error begins
 *   THEMIS               0 with the share as the second line that is printed; any other code is wrong
 *   CMS                  "points X" is an outcome from 0 to 1, and a part is written as such. A checker that ends with 0
 *                        and prints such a number as its first line is asked again, as OUTCOME has it
 *   OUTCOME              the checker ends with 0 and prints the outcome, a number from 0 to 1, as its first line
 *   PERCENT              "points X" means X percent
 *   SHARE                "points X" means the share X of them, or X percent where X is more than 1
 *   RUNS                 the submission runs twice: the interactor's record, else what the checker prints, is the second
 *                        input. RUNS is 2 when the interactor is there for both runs, else 1
 * What else ends them is the judge's fault, and so is any other end of this program.
 *
 * Without a flag a part of the points is wrong. --points MOST: the test is worth so many; --unbounded: the points are
 * taken as they are; --any: a part is right, too, and nothing is scored (samples). --times SCALE: MOST is so many times
 * what the test is worth to the programs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RIGHT = 42, WRONG = 43, FAULT = 1 };

static char here[PATH_MAX], messages[PATH_MAX], score[PATH_MAX], part[PATH_MAX], next_input[PATH_MAX], second[PATH_MAX];
static enum { NOTHING, ANY, POINTS, UNBOUNDED } scoring = NOTHING;
static double most, scale = 1;
/* How long the messages were before the program ran whose end is looked at. */
static off_t before;
/* Where a checker's standard output goes that is not among the messages. */
static char *printed_apart;

__attribute__((noreturn)) static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(FAULT);
}

static char *fresh(const char *what)
{
    char *name;
    int fd;
    if (asprintf(&name, "/tmp/%s.XXXXXX", what) < 0 || (fd = mkstemp(name)) < 0)
        fail("no temporary file can be made");
    close(fd);
    return name;
}

static void copy(int from, const char *name)
{
    char buffer[65536];
    ssize_t count;
    FILE *file = from < 0 ? NULL : fopen(name, "wb");
    if (file == NULL)
        fail("a file cannot be copied");
    while ((count = read(from, buffer, sizeof buffer)) > 0)
        if (fwrite(buffer, 1, count, file) != (size_t)count)
            fail("a file cannot be copied");
    if (count < 0 || fclose(file) != 0)
        fail("a file cannot be copied");
}

/* The submission's output as a file with a name: stdin itself where that can be opened again. */
static const char *output_file(void)
{
    struct stat status;
    int fd = open("/dev/stdin", O_RDONLY);
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        close(fd);
        return "/dev/stdin";
    }
    char *name = fresh("output");
    copy(0, name);
    return name;
}

/* Run a program of this folder with the files that `letters` name; its messages go to the judges, what it prints goes
 * to `printed`, or there as well. Returns its exit code. */
static int run(const char *name, const char *letters, const char *input, const char *output, const char *answer,
               const char *printed, int talks)
{
    char path[PATH_MAX + 32];
    const char *argv[8] = {name};
    int status, count = 1;
    snprintf(path, sizeof path, "%s/%s", here, name);
    for (; *letters && count < 7; letters++)
        argv[count++] = *letters == 'i' ? input : *letters == 'o' ? output : answer;
    struct stat about;
    before = stat(messages, &about) == 0 ? about.st_size : 0;
    pid_t child = fork();
    if (child < 0)
        fail("the %s cannot be started", name);
    if (child == 0) {
        int fd = open(messages, O_WRONLY | O_CREAT | O_APPEND, 0644);
        if (fd >= 0)
            dup2(fd, 2);
        if (printed != NULL)
            fd = open(printed, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (!talks && fd >= 0)
            dup2(fd, 1);
        /* Writing to a submission that has ended is no fault of the interactor. */
        signal(SIGPIPE, SIG_IGN);
        execv(path, (char *const *)argv);
        /* No exit code says this: a checker may mean any of them. */
        abort();
    }
    if (waitpid(child, &status, 0) != child)
        fail("the %s got lost", name);
    if (WIFSIGNALED(status))
        fail("the %s was ended by signal %d", name, WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* What the program that ran last says of a part: a number of points (1), or a share of them (2); 0 when it says nothing.
 * Only whole lines count, of which the first decides: what follows may quote the submission. */
static int said(double *value)
{
    FILE *file = fopen(messages, "rb");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int found = 0;
    double above;
    if (file == NULL || fseeko(file, before, SEEK_SET) != 0)
        fail("the messages cannot be read");
#if defined(COCI) || defined(PEG)
    double below, last = -1;
#endif
    while (!found && (length = getline(&line, &room, file)) >= 0) {
        if (memchr(line, 0, length) != NULL)
            continue;
#if defined(PEG)
        line[strcspn(line, "\r\n")] = 0;
        if (*line == 0 || line[strspn(line, "0123456789")] != 0) {
            last = -1;
            continue;
        }
        above = last;
        below = last = strtod(line, NULL);
        if (above >= 0) {
            *value = below > 0 ? above / below : 0;
            found = 2;
        }
#elif defined(COCI)
        if (sscanf(line, "partial %lf/%lf", &above, &below) == 2 && below > 0 && above - above == 0) {
            *value = above / below;
            found = 2;
        }
#elif defined(LQDOJ)
        char *end;
        const char *digits = line + (*line == '+' || *line == '-');
        if (*digits == 0 || strchr(".0123456789", *digits) == NULL)
            continue;
        above = strtod(line, &end);
        if (end > line) {
            *value = above;
            found = 2;
        }
#else
        char *end;
        if (strncmp(line, "points ", 7) != 0)
            continue;
        above = strtod(line + 7, &end);
        if (end > line + 7 && above - above == 0) {
            *value = above;
            found = 1;
        }
#endif
    }
    free(line);
    fclose(file);
    return found;
}

static void write_number(const char *name, double value)
{
    FILE *file = fopen(name, "wb");
    if (file == NULL || fprintf(file, "%.17g\n", value) < 0 || fclose(file) != 0)
        fail("the score cannot be written");
}

#if defined(CMS) || defined(OUTCOME)
/* Says whether the first line that the checker has printed is a number from 0 to 1, and nothing else. */
static int outcome(const char *printed, double *value)
{
    FILE *file = fopen(printed, "rb");
    char *line = NULL, *end = NULL;
    size_t room = 0;
    int found = 0;
    if (file == NULL)
        fail("what the checker printed cannot be read");
    if (getline(&line, &room, file) > 0) {
        *value = strtod(line, &end);
        found = end > line && end[strspn(end, " \t\r\n")] == 0 && *value >= 0 && *value <= 1;
    }
    free(line);
    fclose(file);
    return found;
}
#endif

/* End with what a part of the points means here: `value` points, or that share of them. */
__attribute__((noreturn)) static void give(double value, int share)
{
    if (share && value > 1)
        value = 1;
    if (scoring == UNBOUNDED) {
        write_number(score, value <= 0 ? 0 : share ? value * 100 : value);
        exit(RIGHT);
    }
#if defined(CMS)
    if (scoring == NOTHING && value > 0 && value < 1) {
        write_number(part, value);
        exit(RIGHT);
    }
#endif
    if (value <= 0 || (scoring == NOTHING && !(share && value >= 1)))
        exit(WRONG);
    if (scoring == POINTS) {
        value = share ? value * most : value * scale;
        if (value < most)
            write_number(score, value);
    }
    exit(RIGHT);
}

#ifdef THEMIS
/* The share in the second line of what the checker has printed. */
static double second_line(void)
{
    FILE *file = fopen(printed_apart, "rb");
    char *line = NULL, *end;
    size_t room = 0;
    double value = 0;
    if (file == NULL || getline(&line, &room, file) < 0 || getline(&line, &room, file) < 0)
        fail("the checker does not print the share of the points in its second line");
    value = strtod(line, &end);
    if (end == line || value - value != 0)
        fail("the checker does not print the share of the points in its second line");
    fclose(file);
    return value;
}
#endif

#if defined(LQDOJ) || defined(THEMIS)
/* At the end of everything, what the checker has printed is among the messages, too. */
static void tell_printed(void)
{
    char buffer[65536];
    size_t count;
    FILE *from = fopen(printed_apart, "rb"), *to = fopen(messages, "ab");
    while (from != NULL && to != NULL && (count = fread(buffer, 1, sizeof buffer, from)) > 0)
        fwrite(buffer, 1, count, to);
    if (to != NULL)
        fclose(to);
}
#endif

/* What an exit code means; returns when it is "right". */
static void judge(const char *name, int code)
{
    double value = 0;
    int kind;
#ifdef THEMIS
    if (code != 0)
        exit(WRONG);
    give(second_line(), 1);
#endif
    if (code == 0)
        return;
#ifdef LQDOJ
    if (code == 2 && (!said(&value) || value < 0 || value > 1))
        fail("the %s gives points, and does not say a share from 0 to 1", name);
    if (code == 2)
        give(value, 1);
    if (code == 4)
        exit(WRONG);
    if (code == 3)
        fail("the %s says that it failed, or that the test is wrong", name);
#endif
#ifdef PEG
    if (code == 1 && said(&value))
        give(value, 1);
#endif
    if (code == 1)
        exit(WRONG);
#ifndef PLAIN
    if (code == 2 || code == 4 || code == 8)
        exit(WRONG);
    if (code == 3)
        fail("the %s says that it failed, or that the test is wrong", name);
    if (code == 7) {
        kind = said(&value);
        if (kind == 0)
            fail("the %s gives points, and does not say how many", name);
#ifdef PERCENT
        if (kind == 1)
            give(value / 100, 1);
#endif
#ifdef SHARE
        give(value > 1 ? value / 100 : value, 1);
#endif
#ifdef CMS
        if (value > 1)
            fail("the %s gives %g points, which is no outcome from 0 to 1", name, value);
        give(value, 1);
#endif
        give(value, kind == 2);
    }
    if (code >= 16 && code <= 116)
        give((code - 16) / 100.0, 1);
#else
    (void)kind;
#endif
    fail("the %s ended with exit code %d, which it should not", name, code);
}

#ifdef RUNS
/* A run that the interactor takes no part in: the submission reads `input`, and what it prints is kept. */
static const char *relay(const char *input)
{
    char *name = fresh("output");
    signal(SIGPIPE, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        char buffer[65536];
        ssize_t count;
        int fd = open(input, O_RDONLY);
        close(0);
        while ((count = read(fd, buffer, sizeof buffer)) > 0)
            for (ssize_t done = 0, step; done < count; done += step)
                if ((step = write(1, buffer + done, count - done)) <= 0)
                    _exit(0);
        _exit(0);
    }
    if (child < 0)
        fail("the second run cannot be started");
    close(1);
    copy(0, name);
    return name;
}

/* The first run ended well: what came out of it is the input of the second. */
static int once_more(void)
{
    copy(open(second, O_RDONLY), next_input);
    return RIGHT;
}
#endif

int main(int argc, char **argv)
{
    ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
    const char *looked_at = NULL, *input, *answer;
    if (argc < 4 || length <= 0)
        fail("usage: run INPUT ANSWER FEEDBACK/ [--points MOST [--times SCALE] | --unbounded | --any] < output");
    here[length] = 0;
    *strrchr(here, '/') = 0;
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "--any") == 0)
            scoring = ANY;
        else if (strcmp(argv[i], "--unbounded") == 0)
            scoring = UNBOUNDED;
        else if (strcmp(argv[i], "--points") == 0 && i + 1 < argc)
            scoring = POINTS, most = strtod(argv[++i], NULL);
        else if (strcmp(argv[i], "--times") == 0 && i + 1 < argc)
            scale = strtod(argv[++i], NULL);
        else
            fail("the flag %s is not known", argv[i]);
    }
    input = argv[1], answer = argv[2];
    snprintf(messages, sizeof messages, "%s/judgemessage.txt", argv[3]);
    snprintf(score, sizeof score, "%s/score.txt", argv[3]);
    snprintf(part, sizeof part, "%s/score_multiplier.txt", argv[3]);
    snprintf(next_input, sizeof next_input, "%s/nextpass.in", argv[3]);
    snprintf(second, sizeof second, "%s/second.in", argv[3]);
#ifdef RUNS
    int first = access(second, F_OK) != 0;
#ifdef INTERACTOR
    if (first) {
        judge("interactor", run("interactor", INTERACTOR, input, second, answer, NULL, 1));
        return once_more();
    }
    if (RUNS == 1)
        looked_at = relay(second);
#else
    if (first) {
        judge("checker", run("checker", CHECKER, input, output_file(), answer, second, 0));
        return once_more();
    }
#endif
    input = second;
#endif
#ifdef INTERACTOR
    if (looked_at == NULL) {
        looked_at = fresh("record");
        judge("interactor", run("interactor", INTERACTOR, input, looked_at, answer, NULL, 1));
    }
    close(1);
    close(0);
#endif
#ifdef CHECKER
    if (looked_at == NULL)
        looked_at = output_file();
#ifdef CMS
    const char *printed = fresh("printed");
    double value;
    int code = run("checker", CHECKER, input, looked_at, answer, printed, 0);
    if (code == 0 && outcome(printed, &value)) {
        /* It speaks as that system wants it, so it has taken the output for the answer. */
        code = run("checker", "iao", input, looked_at, answer, printed, 0);
        if (code != 0 || !outcome(printed, &value))
            fail("the checker ended with exit code %d, and without an outcome from 0 to 1", code);
        give(value, 1);
    }
    judge("checker", code);
#elif defined(OUTCOME)
    const char *printed = fresh("printed");
    double value;
    int code = run("checker", CHECKER, input, looked_at, answer, printed, 0);
    if (code != 0 || !outcome(printed, &value))
        fail("the checker ended with exit code %d, and without an outcome from 0 to 1 as its first line", code);
    give(value, 1);
#else
#if defined(LQDOJ) || defined(THEMIS)
    printed_apart = fresh("printed");
    atexit(tell_printed);
#endif
    judge("checker", run("checker", CHECKER, input, looked_at, answer, printed_apart, 0));
#endif
#endif
    if (scoring == UNBOUNDED)
        write_number(score, 0);
    return RIGHT;
}
