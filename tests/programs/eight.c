/* Waits for SIGUSR1, then hits eight tracepoints in turn, 1,000 times each. */
#include <signal.h>
#include <sordino/tracepoint.h>

SORDINO_TRACEPOINT(eight, event1, SORDINO_INFO, (u32, number))
SORDINO_TRACEPOINT(eight, event2, SORDINO_INFO, (u32, number))
SORDINO_TRACEPOINT(eight, event3, SORDINO_INFO, (u32, number))
SORDINO_TRACEPOINT(eight, event4, SORDINO_INFO, (u32, number))
SORDINO_TRACEPOINT(eight, event5, SORDINO_INFO, (u32, number))
SORDINO_TRACEPOINT(eight, event6, SORDINO_INFO, (u32, number))
SORDINO_TRACEPOINT(eight, event7, SORDINO_INFO, (u32, number))
SORDINO_TRACEPOINT(eight, event8, SORDINO_INFO, (u32, number))

int main(void)
{
    sigset_t signals;
    int signal;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    puts("ready");
    fflush(stdout);
    sigwait(&signals, &signal);
    for (uint32_t number = 0; number < 1000; number++) {
        sordino_tracepoint(eight, event1, number);
        sordino_tracepoint(eight, event2, number);
        sordino_tracepoint(eight, event3, number);
        sordino_tracepoint(eight, event4, number);
        sordino_tracepoint(eight, event5, number);
        sordino_tracepoint(eight, event6, number);
        sordino_tracepoint(eight, event7, number);
        sordino_tracepoint(eight, event8, number);
    }
    return 0;
}
