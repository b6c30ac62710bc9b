/* Steps through a thread of another process, instruction by instruction: stepper TID STEPS */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
    const pid_t tid = argc > 2 ? atoi(argv[1]) : 0;
    const long steps = argc > 2 ? atol(argv[2]) : 0;
    long done = 0;
    int status, signal = 0;
    if (ptrace(PTRACE_ATTACH, tid, 0, 0) || waitpid(tid, &status, __WALL) != tid)
        return 3;
    while (done < steps && WIFSTOPPED(status)) {
        const int stop = WSTOPSIG(status);
        /* A signal other than the step's end or ours is passed on to the thread. */
        signal = stop == SIGTRAP || stop == SIGSTOP ? 0 : stop;
        done += stop == SIGTRAP;
        if (ptrace(PTRACE_SINGLESTEP, tid, 0, (void *)(long)signal) || waitpid(tid, &status, __WALL) != tid)
            return 4;
    }
    if (!WIFSTOPPED(status) || ptrace(PTRACE_DETACH, tid, 0, 0))
        return 5;
    printf("%ld\n", done);
    return 0;
}
