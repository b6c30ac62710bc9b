/* Cost of a switch of fibers and of a function's entry and exit, in bursts that fit into the rings: fibers CPU BURSTS
 * Prints the nanoseconds of CPU time of an empty loop; of ordinary tracepoints of 18 and of 16 bytes; of a switch, which
 * has 18 bytes; of a call; and of a call whose entry and exit are recorded, of 16 bytes each. The median burst of each. */
#include "common.h"
#include <sordino/fiber.h>
#include <sordino/function.h>

SORDINO_TRACEPOINT(bench, eighteen, SORDINO_INFO, (u64, a), (u64, b), (u16, c))
SORDINO_TRACEPOINT(bench, sixteen, SORDINO_INFO, (u64, a), (u64, b))

enum { BURST = 100000, KINDS = 6 };

__attribute__((noinline, no_instrument_function)) static void call(uint64_t number)
{
    USE(number);
}

/* The only function of this file that is compiled with the calls of -finstrument-functions. */
__attribute__((noinline)) static void recorded_call(uint64_t number)
{
    USE(number);
}

#define MEASURE(result, body) \
    do { \
        const double begin = cpu_seconds(); \
        for (uint64_t i = 0; i < BURST; i++) { \
            body; \
        } \
        (result) = (cpu_seconds() - begin) * 1e9 / BURST; \
        /* Waits until the collector has emptied the rings. */ \
        sleep_ms(20); \
    } while (0)

__attribute__((no_instrument_function)) int main(int argc, char **argv)
{
    const int cpu = argc > 1 ? atoi(argv[1]) : 1, bursts = argc > 2 ? atoi(argv[2]) : 20;
    double *times[KINDS];

    stay_on(cpu);
    for (int kind = 0; kind < KINDS; kind++)
        times[kind] = calloc((size_t)bursts, sizeof(double));
    for (int burst = 0; burst < bursts; burst++) {
        MEASURE(times[0][burst], USE(i));
        MEASURE(times[1][burst], sordino_tracepoint(bench, eighteen, i, i, (uint16_t)i); USE(i));
        MEASURE(times[2][burst], sordino_tracepoint(bench, sixteen, i, i); USE(i));
        MEASURE(times[3][burst], sordino_fiber_switch(i, i + 1, SORDINO_FIBER_YIELDED, NULL); USE(i));
        MEASURE(times[4][burst], call(i); USE(i));
        MEASURE(times[5][burst], recorded_call(i); USE(i));
    }
    print_medians(times, KINDS, bursts);
    return 0;
}
