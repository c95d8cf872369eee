/* What the parts of the agent share; see agent.c. */
#ifndef JUDGE_AGENT_H
#define JUDGE_AGENT_H

#include <stdint.h>

/* Says what failed, with errno, on stderr (which the slot keeps) and ends the process. */
__attribute__((noreturn)) void die(const char *what);

/* A command line's number, not below 0; anything else ends the process. */
int number(const char *text);

/* The launcher: argv as for main, from the word "launch" on. Returns an exit code when it could not execute. */
int launch(int argc, char **argv);

/* walls.c. Where no error is returned, one ends the process. */

/* Devices stay usable and become read-only otherwise; there are no terminals. */
void close_devices(void);

/* Runs get a /proc of their own processes, read-only; call before what follows. */
void cover_proc(void);

/* Opens a file of process 1's own /proc, which can be written; as open. */
int open_proc(const char *path, int flags);

/* The next process gets the first free pid above `last`, a digit. */
void rewind_pids(char last);

/* What runs may read: all but the files of /proc. Call when the directories of the container are complete. */
void choose_readable(void);

/* In the child: from now on it can open only these to be read, and its input and its pipes again. 0, or -1. */
int restrict_reading(int input, const int *pipes, int count);

/* calls.c: system calls of runs that process 1 answers. Call before the processes that start runs are made. */
void answer_calls(void);

/* statfs for process 1, for whom nobody would answer. */
struct statfs;
int own_statfs(const char *path, struct statfs *into);

/* At a run's start: no call is waited for. */
void forget_calls(void);

/* For poll: its entry, and when serve_calls has something to do (CLOCK_MONOTONIC in ns; UINT64_MAX: never). */
struct pollfd;
void wait_for_calls(struct pollfd *entry);
uint64_t next_look(void);
void serve_calls(const struct pollfd *entry);

/* network.c: the runs' network namespace. Call cover_proc first. */

/* The first run's; processes that are cloned later are in it. */
void first_network(void);

/* Frees what the dead run left in its namespace, or replaces that: what the next run enters has no socket in it. */
void renew_network(void);

/* The descriptor of the namespace that the next run is to enter. */
int network(void);

#endif
