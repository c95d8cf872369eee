/* What the launcher and process 1 share; see agent.c. */
#ifndef JUDGE_AGENT_H
#define JUDGE_AGENT_H

/* Says what failed, with errno, on stderr (which the slot keeps) and ends the process. */
__attribute__((noreturn)) void die(const char *what);

/* A command line's number, not below 0; anything else ends the process. */
int number(const char *text);

/* The launcher: argv as for main, from the word "launch" on. Returns an exit code when it could not execute. */
int launch(int argc, char **argv);

#endif
