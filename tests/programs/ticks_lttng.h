/* A tracepoint of LTTng's. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER tick

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "ticks_lttng.h"

#if !defined(TICKS_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TICKS_LTTNG_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    tick,
    tock,
    LTTNG_UST_TP_ARGS(int, number, const char *, text, double, ratio),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int, number, number)
        lttng_ust_field_string(text, text)
        lttng_ust_field_float(double, ratio, ratio)
    )
)

#endif

#include <lttng/tracepoint-event.h>
