/*
 * Preloaded into user-mode Linux, which before version 6.13 has room for 2,696 bytes of a processor's registers. The
 * machine's kernel hands out as much of them as there is room for, but takes them back only whole (EFAULT otherwise):
 * on processors with more of them (AMX: 11 KiB) not one program could run. What user-mode Linux does not know is put
 * back as it is: none of its programs can use it, since its kernel has no call that would allow them to.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static long ask(int request, long pid, void *what, void *data)
{
    return syscall(SYS_ptrace, request, pid, what, data);
}

long ptrace(enum __ptrace_request request, ...)
{
    __builtin_va_list arguments;
    __builtin_va_start(arguments, request);
    long pid = __builtin_va_arg(arguments, int);
    void *what = __builtin_va_arg(arguments, void *), *data = __builtin_va_arg(arguments, void *);
    __builtin_va_end(arguments);

    long word, answer = ask(request, pid, what, request >= PTRACE_PEEKTEXT && request <= PTRACE_PEEKUSER ? &word : data);
    if (request >= PTRACE_PEEKTEXT && request <= PTRACE_PEEKUSER && answer == 0) {
        errno = 0; /* the C library's way: the word is the answer, see ptrace(2) */
        return word;
    }
    if (request == PTRACE_SETREGSET && (long)what == NT_X86_XSTATE && answer == -1 && errno == EFAULT) {
        static unsigned char whole[64 * 1024];
        struct iovec all = {whole, sizeof whole}, *part = data;
        answer = ask(PTRACE_GETREGSET, pid, what, &all);
        if (answer == 0 && part->iov_len < all.iov_len) {
            memcpy(whole, part->iov_base, part->iov_len);
            answer = ask(PTRACE_SETREGSET, pid, what, &all);
        }
    }
    return answer;
}
