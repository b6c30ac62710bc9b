/* Hits a tracepoint all the time until SIGTERM. Prints a line when it is recorded for the first time, and at the end
 * whether it still is. */
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>

SORDINO_TRACEPOINT(steady, step, SORDINO_INFO, (u64, number))

static volatile sig_atomic_t stop;

static void on_term(int signal)
{
    (void)signal;
    stop = 1;
}

int main(int argc, char **argv)
{
    const int pause = argc > 1 ? atoi(argv[1]) : 1000;
    uint64_t number = 0;
    signal(SIGTERM, on_term);
    puts("ready");
    fflush(stdout);
    while (!stop) {
        sordino_tracepoint(steady, step, number);
        if (sordino_enabled(steady, step) && number++ == 0) {
            puts("recorded");
            fflush(stdout);
        }
        for (volatile int i = 0; i < pause; i++)
            ;
    }
    printf("done %d\n", sordino_enabled(steady, step));
    return 0;
}
