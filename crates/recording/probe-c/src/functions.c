/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * libsordino-functions: the calls that gcc and clang insert with -finstrument-functions, as hits of the tracepoints of
 * sordino/function.h. The C library has empty ones, so a program runs with and without this library; it is linked, or
 * loaded by LD_PRELOAD. This file itself is compiled without that option.
 */
#include <sordino/function.h>

void __cyg_profile_func_enter(void *function, void *call_site);
void __cyg_profile_func_exit(void *function, void *call_site);

/* Hits a tracepoint. An inline filter is evaluated here: a call of the library for it would cost as much again. */
static inline __attribute__((always_inline)) void record(
    const struct sordino_tracepoint *point, const void *function, const void *call_site)
{
    const uint64_t *const word = __atomic_load_n(&point->enabled, __ATOMIC_RELAXED);
    const uint64_t enabled = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if (__builtin_expect(enabled == 0, 1))
        return;
    if (enabled & SORDINO_INLINE_FILTER) {
        const struct sordino_inline_filter *const filter =
            (const struct sordino_inline_filter *)(const void *)((const unsigned char *)word + (enabled >> 8));
        const uint32_t field = __atomic_load_n(&filter->field, __ATOMIC_RELAXED);
        const uint64_t value = (uintptr_t)(field == 0 ? function : call_site);
        if (value - __atomic_load_n(&filter->low, __ATOMIC_RELAXED) > __atomic_load_n(&filter->span, __ATOMIC_RELAXED))
            return;
    }
    sordino_emit_pair(point, enabled, (uintptr_t)function, (uintptr_t)call_site);
}

void __cyg_profile_func_enter(void *function, void *call_site)
{
    record(&sordino_point_sordino_function_entry, function, call_site);
}

void __cyg_profile_func_exit(void *function, void *call_site)
{
    record(&sordino_point_sordino_function_exit, function, call_site);
}
