/* Cost of a hit, in bursts that fit into the rings: cost CPU BURSTS
 * Prints the nanoseconds of an empty loop, of one that reads the clock, of one that hits a recorded tracepoint, and of
 * one that hits an unrecorded one: the median burst of each. */
#include "common.h"
#include "tracer.h"

enum { BURST = 400000, KINDS = 4 };

#define MEASURE(result, body) \
    do { \
        const double begin = seconds(); \
        for (uint64_t i = 0; i < BURST; i++) { \
            body; \
        } \
        (result) = (seconds() - begin) * 1e9 / BURST; \
    } while (0)

int main(int argc, char **argv)
{
    const int cpu = argc > 1 ? atoi(argv[1]) : 1, bursts = argc > 2 ? atoi(argv[2]) : 20;
    double *times[KINDS];

    stay_on(cpu);
    for (int kind = 0; kind < KINDS; kind++)
        times[kind] = calloc((size_t)bursts, sizeof(double));
    for (int burst = 0; burst < bursts; burst++) {
        MEASURE(times[0][burst], USE(i));
        MEASURE(times[1][burst], USE(__rdtsc()));
        MEASURE(times[2][burst], HIT(i, i); USE(i));
        MEASURE(times[3][burst], HIT_OFF(i, i); USE(i));
        /* Waits until the collector has emptied the rings. */
        sleep_ms(40);
    }
    print_medians(times, KINDS, bursts);
    return 0;
}
