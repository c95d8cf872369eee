/* An output validator of the package format (INPUT ANSWER FEEDBACK/ [flags] < output; exit code 42 or 43) that asks
 * programs made with testlib: ./checker INPUT OUTPUT ANSWER, ./interactor INPUT RECORD ANSWER, or one after the other.
 *
 * Their exit codes: 0 right; 1, 2, 4, 8 wrong; 3 the program's own fault; 7 with "points X" in its message: X points;
 * 16 + N: N percent. What else ends them is the judge's fault, and so is any other end of this program.
 *
 * Without a flag a part of the points is wrong. --points MOST: the test is worth so many; --unbounded: the points are
 * taken as they are; --any: a part is right, too, and nothing is scored (samples).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <libgen.h>
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

static char here[PATH_MAX], messages[PATH_MAX], score[PATH_MAX];
static enum { NOTHING, ANY, POINTS, UNBOUNDED } scoring = NOTHING;
static double most;

static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(FAULT);
}

/* The name of a new file, beside nothing that a program could know. */
static char *fresh(const char *what)
{
    char *name;
    int fd;
    if (asprintf(&name, "/tmp/%s.XXXXXX", what) < 0 || (fd = mkstemp(name)) < 0)
        fail("no temporary file can be made");
    close(fd);
    return name;
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
    char buffer[65536], *name = fresh("output");
    FILE *file = fopen(name, "wb");
    ssize_t count;
    if (file == NULL)
        fail("the output cannot be kept");
    while ((count = read(0, buffer, sizeof buffer)) > 0)
        if (fwrite(buffer, 1, count, file) != (size_t)count)
            fail("the output cannot be kept");
    if (fclose(file) != 0)
        fail("the output cannot be kept");
    return name;
}

/* Run a program of this folder; its messages go to the judges. Returns its exit code. */
static int run(const char *name, const char *a, const char *b, const char *c)
{
    char path[PATH_MAX + 32];
    int status;
    snprintf(path, sizeof path, "%s/%s", here, name);
    pid_t child = fork();
    if (child < 0)
        fail("the %s cannot be started", name);
    if (child == 0) {
        int fd = open(messages, O_WRONLY | O_CREAT | O_APPEND, 0644);
        if (fd >= 0)
            dup2(fd, 2);
        if (strcmp(name, "interactor") != 0)
            dup2(2, 1);
        /* Writing to a submission that has ended is no fault of the interactor. */
        signal(SIGPIPE, SIG_IGN);
        execl(path, name, a, b, c, (char *)NULL);
        _exit(127);
    }
    if (waitpid(child, &status, 0) != child)
        fail("the %s got lost", name);
    if (WIFSIGNALED(status))
        fail("the %s was ended by signal %d", name, WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* The number behind the last "points" in the messages, or at the beginning of one. */
static int said_points(double *value)
{
    FILE *file = fopen(messages, "rb");
    char line[4096], *place, *end;
    int found = 0;
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        place = strstr(line, "points ");
        place = place != NULL ? place + 7 : line;
        double number = strtod(place, &end);
        if (end != place && number - number == 0) {
            *value = number;
            found = 1;
        }
    }
    fclose(file);
    return found;
}

static void write_score(double value)
{
    FILE *file = fopen(score, "wb");
    if (file == NULL || fprintf(file, "%.10g\n", value) < 0 || fclose(file) != 0)
        fail("the score cannot be written");
}

/* End with what a part of the points means here; `share` is the part of MOST where `percent`. */
static void give(double value, int percent)
{
    if (scoring == NOTHING || value <= 0)
        exit(percent && value >= 1 ? RIGHT : scoring == UNBOUNDED && !percent ? (write_score(0), RIGHT) : WRONG);
    if (scoring == POINTS) {
        value = percent ? value * most : value;
        if (value < most)
            write_score(value);
    } else if (scoring == UNBOUNDED)
        write_score(percent ? value * 100 : value);
    exit(RIGHT);
}

/* What an exit code means; returns when it is "right". */
static void judge(const char *name, int code)
{
    double value = 0;
    switch (code) {
    case 0:
        return;
    case 1:
    case 2:
    case 4:
    case 8:
        exit(WRONG);
    case 3:
        fail("the %s says that it failed, or that the test is wrong", name);
    case 7:
        if (!said_points(&value))
            fail("the %s gives points, and does not say how many", name);
        give(value, 0);
    }
    if (code < 16 || code > 216)
        fail("the %s ended with exit code %d, which testlib does not have", name, code);
    give(code - 16 > 100 ? 1 : (code - 16) / 100.0, 1);
}

int main(int argc, char **argv)
{
    ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
    if (argc < 4 || length <= 0)
        fail("usage: run INPUT ANSWER FEEDBACK/ [--points MOST | --unbounded | --any] < output");
    here[length] = 0;
    memmove(here, dirname(here), strlen(dirname(here)) + 1);
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "--any") == 0)
            scoring = ANY;
        else if (strcmp(argv[i], "--unbounded") == 0)
            scoring = UNBOUNDED;
        else if (strcmp(argv[i], "--points") == 0 && i + 1 < argc)
            scoring = POINTS, most = strtod(argv[++i], NULL);
        else
            fail("the flag %s is not known", argv[i]);
    }
    snprintf(messages, sizeof messages, "%s/judgemessage.txt", argv[3]);
    snprintf(score, sizeof score, "%s/score.txt", argv[3]);
    const char *looked_at = NULL;
#ifdef INTERACTOR
    looked_at = fresh("record");
    judge("interactor", run("interactor", argv[1], looked_at, argv[2]));
    close(1);
    close(0);
#endif
#ifdef CHECKER
    if (looked_at == NULL)
        looked_at = output_file();
    judge("checker", run("checker", argv[1], looked_at, argv[2]));
#endif
    if (scoring == UNBOUNDED)
        write_score(0);
    return RIGHT;
}
