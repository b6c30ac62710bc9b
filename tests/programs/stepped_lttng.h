/* LTTng reads this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER stepped
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./stepped_lttng.h"
#if !defined(STEPPED_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define STEPPED_LTTNG_H
#include <lttng/tracepoint.h>
#include <stdint.h>
LTTNG_UST_TRACEPOINT_EVENT(stepped, two_words, LTTNG_UST_TP_ARGS(uint64_t, first, uint64_t, second),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, first, first) lttng_ust_field_integer(uint64_t, second, second)))
#endif
#include <lttng/tracepoint-event.h>
