/* Tracepoints in main and in a handler of signals that come all the time. */
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/time.h>

SORDINO_TRACEPOINT(alarms, in_main, SORDINO_INFO, (u64, number), (u64, again))
SORDINO_TRACEPOINT(alarms, in_handler, SORDINO_INFO, (u64, number), (u64, again))

static volatile uint64_t handled;

static void on_alarm(int signal)
{
    (void)signal;
    sordino_tracepoint(alarms, in_handler, handled, handled);
    handled++;
}

int main(int argc, char **argv)
{
    const uint64_t alarms = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    const struct itimerval often = {{0, 20}, {0, 20}}, never = {{0, 0}, {0, 0}};
    uint64_t number = 0;
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &often, NULL);
    for (; handled < alarms; number++)
        sordino_tracepoint(alarms, in_main, number, number);
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%llu %llu\n", (unsigned long long)number, (unsigned long long)handled);
    return 0;
}
