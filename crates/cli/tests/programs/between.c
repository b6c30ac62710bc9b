/* Hits a tracepoint between two system calls, 1,000 times; with an argument, only after SIGUSR1. */
#define _GNU_SOURCE
#include <signal.h>
#include <sordino/tracepoint.h>
#include <sys/syscall.h>
#include <unistd.h>

SORDINO_TRACEPOINT(between, calls, SORDINO_INFO, (u32, number))

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        sigset_t set;
        int signal;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, NULL);
        puts("ready");
        fflush(stdout);
        sigwait(&set, &signal);
    }
    for (uint32_t number = 0; number < 1000; number++) {
        syscall(SYS_getppid);
        sordino_tracepoint(between, calls, number);
        syscall(SYS_getppid);
    }
    return 0;
}
