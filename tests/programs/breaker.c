/* Stops every thread of a process that reaches ADDRESS: breaker PID ADDRESS ABORT TIMES
 *
 * TIMES 0: kills the process there. Otherwise continues the thread, this many times, and counts how often the kernel
 * continues it at ABORT instead. Prints how often a thread was stopped there and how often it was aborted. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

static pid_t pid;
static uint64_t address, handler;
static long original;

static void put(pid_t tid, int is_break)
{
    const long word = is_break ? (original & ~0xffL) | 0xcc : original;
    if (ptrace(PTRACE_POKETEXT, tid, address, word))
        exit(4);
}

/* Continues a thread behind the breakpoint without it. Returns true if the section was aborted. */
static int passes(pid_t tid)
{
    struct user_regs_struct registers;
    int status, signal = 0;
    put(tid, 0);
    ptrace(PTRACE_GETREGS, tid, 0, &registers);
    registers.rip = address;
    ptrace(PTRACE_SETREGS, tid, 0, &registers);
    /* A signal would stop the thread before its step: it is delivered behind the step. */
    do {
        if (ptrace(PTRACE_SINGLESTEP, tid, 0, 0) || waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
            exit(5);
        signal = WSTOPSIG(status) == SIGTRAP ? signal : WSTOPSIG(status);
    } while (WSTOPSIG(status) != SIGTRAP);
    /* The step is one instruction of the handler. */
    ptrace(PTRACE_GETREGS, tid, 0, &registers);
    put(tid, 1);
    ptrace(PTRACE_CONT, tid, 0, (long)signal);
    return registers.rip >= handler && registers.rip <= handler + 16;
}

int main(int argc, char **argv)
{
    char path[64];
    struct dirent *entry;
    struct user_regs_struct registers;
    long hits = 0, aborted = 0, times;
    int status, other;
    pid_t tid, first = 0;
    const time_t end = time(NULL) + 10;
    if (argc < 5)
        return 3;
    pid = atoi(argv[1]);
    address = strtoull(argv[2], NULL, 0);
    handler = strtoull(argv[3], NULL, 0);
    times = atol(argv[4]);
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    while (tasks && (entry = readdir(tasks)))
        if ((tid = atoi(entry->d_name)) && ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACECLONE) == 0)
            first = first ? first : tid;
    if (!first || ptrace(PTRACE_INTERRUPT, first, 0, 0) || waitpid(first, &status, __WALL) != first)
        return 3;
    original = ptrace(PTRACE_PEEKTEXT, first, address, 0);
    put(first, 1);
    ptrace(PTRACE_CONT, first, 0, 0);
    while (time(NULL) < end && (hits < times || times == 0)) {
        tid = waitpid(-1, &status, __WALL | WNOHANG);
        if (tid == 0)
            continue;
        if (tid < 0 || !WIFSTOPPED(status))
            continue;
        ptrace(PTRACE_GETREGS, tid, 0, &registers);
        if (WSTOPSIG(status) == SIGTRAP && status >> 16 == 0 && registers.rip == address + 1) {
            hits++;
            if (times == 0) {
                kill(pid, SIGKILL);
                break;
            }
            aborted += passes(tid);
        } else {
            const int is_event = status >> 16 != 0 || WSTOPSIG(status) == SIGTRAP;
            ptrace(PTRACE_CONT, tid, 0, (long)(is_event ? 0 : WSTOPSIG(status)));
        }
    }
    if (times) {
        /* No thread may remain behind the breakpoint. */
        ptrace(PTRACE_INTERRUPT, first, 0, 0);
        while ((tid = waitpid(first, &other, __WALL)) == first && !WIFSTOPPED(other))
            ;
        put(first, 0);
        kill(pid, SIGKILL);
    }
    printf("%ld %ld\n", hits, aborted);
    return 0;
}
