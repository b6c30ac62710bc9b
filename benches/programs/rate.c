/* Hits a tracepoint at a steady rate: rate CPU EVENTS_PER_SECOND SECONDS
 * Prints how many events it hit, and in how many seconds. */
#include "common.h"
#include "tracer.h"

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const int cpu = atoi(argv[1]);
    const double rate = atof(argv[2]), length = atof(argv[3]);
    const double period = hertz() / rate;
    const uint64_t events = (uint64_t)(rate * length);

    stay_on(cpu);
    HIT(0, 0);
    sleep_ms(100);
    const double begin = seconds();
    const uint64_t first = __rdtsc();
    for (uint64_t i = 1; i < events; i++) {
        const uint64_t due = first + (uint64_t)((double)i * period);
        while ((int64_t)(__rdtsc() - due) < 0) {
        }
        HIT(i, i);
    }
    printf("%lu %.3f\n", (unsigned long)events, seconds() - begin);
    return 0;
}
