/* What the parts of the agent share; see agent.c. */
#ifndef JUDGE_AGENT_H
#define JUDGE_AGENT_H

/* Says what failed, with errno, on stderr (which the slot keeps) and ends the process. */
__attribute__((noreturn)) void die(const char *what);

/* A command line's number, not below 0; anything else ends the process. */
int number(const char *text);

/* The launcher: argv as for main, from the word "launch" on. Returns an exit code when it could not execute. */
int launch(int argc, char **argv);

/* walls.c. Where no error is returned, one ends the process. */

/* Devices stay usable and become read-only otherwise; there are no terminals. */
void close_devices(void);

/* Runs get a /proc of their own processes, read-only; call before the next three. */
void cover_proc(void);

/* Opens a file of process 1's own /proc, which can be written; as open. */
int open_proc(const char *path, int flags);

/* The next process gets the first free pid above `last`, a digit. */
void rewind_pids(char last);

/* A network namespace in which there are no sockets: the first, or another one when runs left any. */
void renew_network(void);

/* A descriptor of the network namespace, for processes that were cloned before it was made; -1 when none were. */
int network_to_enter(void);

#endif
