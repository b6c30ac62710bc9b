/* Hits a tracepoint all the time until SIGTERM. Prints a line when it is recorded for the first time, and at the end
 * whether it still is. usage: steady [LOOPS | NANOSECONDS ns], the pause between two hits: loops, of which some
 * processors execute five times as many in the same time as others, or a time. */
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <time.h>

SORDINO_TRACEPOINT(steady, step, SORDINO_INFO, (u64, number))

static volatile sig_atomic_t stop;

static void on_term(int signal)
{
    (void)signal;
    stop = 1;
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv)
{
    const int pause = argc > 1 ? atoi(argv[1]) : 1000, is_time = argc > 2;
    int64_t due = now();
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
        if (is_time) {
            for (due += pause; now() < due && !stop;)
                ;
            continue;
        }
        for (volatile int i = 0; i < pause; i++)
            ;
    }
    printf("done %d\n", sordino_enabled(steady, step));
    return 0;
}
