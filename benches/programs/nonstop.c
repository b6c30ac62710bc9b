/* A SCHED_FIFO thread that hits a tracepoint in each loop without a pause:
 * nonstop CPU SECONDS WINDOW
 * Windows of so many seconds are counted in turn as the first kind and as the second. Says "go" when the first begins, and
 * at the end a line for each kind: p50, p99, p99.9, p99.99 and p99.999 in nanoseconds, and loops. */
#include "common.h"
#include "tracer.h"

enum { LIMIT = 1 << 20 };

static uint32_t histogram[2][LIMIT];

static void print(const uint32_t *counts, double ghz)
{
    const double quantiles[] = {0.5, 0.99, 0.999, 0.9999, 0.99999};
    uint64_t loops = 0, seen = 0;
    size_t next = 0;
    for (size_t gap = 0; gap < LIMIT; gap++)
        loops += counts[gap];
    for (size_t gap = 0; gap < LIMIT && next < 5; gap++) {
        seen += counts[gap];
        for (; next < 5 && (double)seen >= quantiles[next] * (double)loops; next++)
            printf("%.1f ", (double)gap / ghz);
    }
    printf("%.0f\n", (double)loops);
}

int main(int argc, char **argv)
{
    const int cpu = argc > 1 ? atoi(argv[1]) : 1, length = argc > 2 ? atoi(argv[2]) : 10,
              each = argc > 3 ? atoi(argv[3]) : 5;
    const struct sched_param priority = {.sched_priority = 90};
    const double hz = hertz();

    stay_on(cpu);
    if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0 || mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        perror("real-time priority");
        return 2;
    }
    HIT(0, 0);
    puts("go");
    fflush(stdout);
    uint64_t number = 0, last = __rdtsc();
    for (int window = 0; window < length / each; window++) {
        uint32_t *const counts = histogram[window % 2];
        for (const uint64_t end = last + (uint64_t)(each * hz); last < end; number++) {
            HIT(number, number);
            const uint64_t now = __rdtsc(), gap = now - last;
            last = now;
            counts[gap < LIMIT ? gap : LIMIT - 1]++;
        }
    }
    print(histogram[0], hz / 1e9);
    print(histogram[1], hz / 1e9);
    return 0;
}
