/* Hits a tracepoint all the time until SIGTERM. */
#include <signal.h>
#include <sordino/tracepoint.h>

SORDINO_TRACEPOINT(steady, step, SORDINO_INFO, (u64, number))

static volatile sig_atomic_t stop;

static void on_term(int signal)
{
    (void)signal;
    stop = 1;
}

int main(void)
{
    uint64_t number = 0;
    signal(SIGTERM, on_term);
    puts("ready");
    fflush(stdout);
    while (!stop) {
        sordino_tracepoint(steady, step, number);
        number += sordino_enabled(steady, step);
        for (volatile int i = 0; i < 1000; i++)
            ;
    }
    return 0;
}
