/* One name for the tracepoints of both tracers: two u64 each, `two` to be recorded and `off` not. */
#ifndef BENCH_TRACER_H
#define BENCH_TRACER_H

#if defined(TRACER_SORDINO)
#include <sordino/tracepoint.h>
SORDINO_TRACEPOINT(bench, two, SORDINO_INFO, (u64, a), (u64, b))
SORDINO_TRACEPOINT(bench, off, SORDINO_INFO, (u64, a), (u64, b))
#define HIT(a, b) sordino_tracepoint(bench, two, a, b)
#define HIT_OFF(a, b) sordino_tracepoint(bench, off, a, b)

#elif defined(TRACER_LTTNG)
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "lttng_provider.h"
#define HIT(a, b) lttng_ust_tracepoint(bench, two, a, b)
#define HIT_OFF(a, b) lttng_ust_tracepoint(bench, off, a, b)

#else
#define HIT(a, b) ((void)0)
#define HIT_OFF(a, b) ((void)0)
#endif

#endif
