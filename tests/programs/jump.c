/* A signal handler that jumps out of the interrupted code, tracepoints included, and never returns: jump TIMES. Prints
 * the number of events that it began to write. */
#include <setjmp.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/time.h>

SORDINO_TRACEPOINT(jump, step, SORDINO_INFO, (u64, number), (u64, again))

static sigjmp_buf out;

static void on_alarm(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

int main(int argc, char **argv)
{
    const struct itimerval soon = {{0, 0}, {0, 50}};
    const int times = argc > 1 ? atoi(argv[1]) : 1;
    static volatile uint64_t begun;
    static volatile int jumps;
    signal(SIGALRM, on_alarm);
    if (sigsetjmp(out, 1) != 0)
        jumps++;
    if (jumps < times) {
        setitimer(ITIMER_REAL, &soon, NULL);
        for (;;) {
            const uint64_t number = begun++;
            sordino_tracepoint(jump, step, number, number);
        }
    }
    printf("%llu\n", (unsigned long long)begun);
    return 0;
}
