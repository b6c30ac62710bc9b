/* LTTng-UST reads this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER npt
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./npt.h"
#if !defined(SORDINO_PEERS_NPT_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define SORDINO_PEERS_NPT_H
#include <lttng/tracepoint.h>
#include <stdint.h>
LTTNG_UST_TRACEPOINT_EVENT(npt, loop, LTTNG_UST_TP_ARGS(uint64_t, number, uint64_t, duration),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, number, number) lttng_ust_field_integer(uint64_t, duration, duration)))
#endif
#include <lttng/tracepoint-event.h>
