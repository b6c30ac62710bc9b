/* Gaps between loops of a SCHED_FIFO thread that hits a tracepoint in each, in bursts that fit into the rings:
 * gaps CPU BURSTS
 * Prints p50, p99, p99.9, p99.99 and p99.999 in nanoseconds, gaps over 1 us per million loops, and the longest in ns. */
#include "common.h"
#include "tracer.h"

enum { BURST = 500000, LIMIT = 1 << 20 };

static uint32_t histogram[LIMIT];

int main(int argc, char **argv)
{
    const int cpu = argc > 1 ? atoi(argv[1]) : 1, bursts = argc > 2 ? atoi(argv[2]) : 20;
    const struct sched_param priority = {.sched_priority = 90};
    const double quantiles[] = {0.5, 0.99, 0.999, 0.9999, 0.99999};
    const double ghz = hertz() / 1e9;
    uint64_t longest = 0, over = 0, seen = 0;

    stay_on(cpu);
    if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0 || mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        perror("real-time priority");
        return 2;
    }
    for (int burst = -1; burst < bursts; burst++) {
        uint64_t last = __rdtsc();
        for (uint64_t i = 0; i < BURST; i++) {
            HIT(i, i);
            const uint64_t now = __rdtsc(), gap = now - last;
            last = now;
            if (burst >= 0) {
                histogram[gap < LIMIT ? gap : LIMIT - 1]++;
                longest = gap > longest ? gap : longest;
                over += (double)gap > 1000 * ghz;
            }
        }
        sleep_ms(60);
    }
    const uint64_t loops = (uint64_t)bursts * BURST;
    size_t next = 0;
    for (uint64_t gap = 0; gap < LIMIT && next < 5; gap++) {
        seen += histogram[gap];
        while (next < 5 && (double)seen >= quantiles[next] * (double)loops) {
            printf("%.1f ", (double)gap / ghz);
            next++;
        }
    }
    printf("%.3f %.0f\n", 1e6 * (double)over / (double)loops, (double)longest / ghz);
    return 0;
}
