/* Hits a tracepoint of LTTng's 10,000 times. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "ticks_lttng.h"

int main(void)
{
    for (int number = 0; number < 10000; number++)
        lttng_ust_tracepoint(tick, tock, number - 5000, number % 2 ? "odd" : "even", number / 4.0);
    return 0;
}
