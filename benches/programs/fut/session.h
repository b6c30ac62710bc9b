/* Recording with FxT's FUT, in the program itself: a buffer for the whole run, written to FUT_FILE at the end. FUT reports
 * no losses, but a full buffer stops it. With TRACER_FUNCTIONS, each function is recorded, by the codes that FUT has for
 * the calls of -finstrument-functions. */
#ifndef BENCH_FUT_SESSION_H
#define BENCH_FUT_SESSION_H

#define CONFIG_FUT
#include <fxt/fut.h>

#include <stdio.h>
#include <stdlib.h>

#define NOT_RECORDED __attribute__((no_instrument_function))

/* Words of the buffer. */
enum { FUT_WORDS = 64 << 20 };

#if defined(TRACER_FUNCTIONS)
extern "C" {
NOT_RECORDED void __cyg_profile_func_enter(void *function, void *call_site)
{
    FUT_DO_PROBE2(FUT_GCC_INSTRUMENT_ENTRY_CODE, function, call_site);
}

NOT_RECORDED void __cyg_profile_func_exit(void *function, void *call_site)
{
    FUT_DO_PROBE2(FUT_GCC_INSTRUMENT_EXIT_CODE, function, call_site);
}
}
#endif

NOT_RECORDED static inline void fut_begin(void)
{
    if (fut_setup(FUT_WORDS, FUT_KEYMASKALL, 0) < 0) {
        perror("fut_setup");
        exit(2);
    }
}

/* Writes the trace. Returns true if the buffer had room for all of it. */
NOT_RECORDED static inline bool fut_end(void)
{
    const bool is_full = fut_active == 0;
    if (is_full)
        fprintf(stderr, "the buffer of %d words is full\n", FUT_WORDS);
    const char *const file = getenv("FUT_FILE");
    return fut_endup(file != NULL ? file : "/dev/null") != (uint64_t)-1 && !is_full;
}

#endif
