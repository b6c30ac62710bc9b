/* npt's tracepoint for LTTng-UST. */
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "npt.h"

void sordino_peer_hit(uint64_t number, uint64_t duration)
{
    lttng_ust_tracepoint(npt, loop, number, duration);
}
