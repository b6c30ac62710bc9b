/* An event between any two of many system calls: between COUNT [CPU | wait], which waits for SIGUSR1. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

SORDINO_TRACEPOINT(between, calls, SORDINO_INFO, (u64, number))

static void wait_for_signal(void)
{
    sigset_t set;
    int signal;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    puts("ready");
    fflush(stdout);
    sigwait(&set, &signal);
}

int main(int argc, char **argv)
{
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    if (argc > 2 && !strcmp(argv[2], "wait")) {
        wait_for_signal();
    } else if (argc > 2) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(atoi(argv[2]), &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            return 3;
    }
    /* A system call that neither the dynamic linker nor the C library makes. */
    syscall(SYS_getppid);
    for (uint64_t number = 0; number < count; number++) {
        sordino_tracepoint(between, calls, number);
        syscall(SYS_getppid);
    }
    return 0;
}
