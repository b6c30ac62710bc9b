/* The calls of sordino/fiber.h, as probes of FxT's FUT with its codes for the threads of its own library: the adapter for
 * Boost.Fiber, compiled with this file, records the same with FUT. */
#ifndef SORDINO_FIBER_H
#define SORDINO_FIBER_H

#define CONFIG_FUT
#include <fxt/fut.h>

#include <stdint.h>

enum sordino_fiber_why {
    SORDINO_FIBER_UNKNOWN = 0,
    SORDINO_FIBER_YIELDED = 1,
    SORDINO_FIBER_SLICE_OVER = 2,
    SORDINO_FIBER_BLOCKED = 3,
    SORDINO_FIBER_ENDED = 4,
    SORDINO_FIBER_RESUMED = 5
};

/* A code that FUT leaves to programs. */
enum { FUT_WAKE_CODE = 0x500 };

static inline void sordino_fiber_thread_enter(const char *scheduler)
{
    (void)scheduler;
    FUT_DO_PROBE0(FUT_NEW_LWP_CODE);
}

static inline void sordino_fiber_thread_leave(void)
{
}

static inline void sordino_fiber_new(uint64_t fiber, const char *name)
{
    (void)name;
    FUT_DO_PROBE1(FUT_THREAD_BIRTH_CODE, fiber);
}

static inline void sordino_fiber_switch(uint64_t from, uint64_t to, enum sordino_fiber_why why, const char *on)
{
    (void)on;
    FUT_DO_PROBE3(FUT_SWITCH_TO_CODE, from, to, why);
}

static inline void sordino_fiber_end(uint64_t fiber)
{
    FUT_DO_PROBE1(FUT_THREAD_DEATH_CODE, fiber);
}

static inline void sordino_fiber_wake(uint64_t fiber, uint64_t by)
{
    FUT_DO_PROBE2(FUT_WAKE_CODE, fiber, by);
}

static inline void sordino_fiber_rename(uint64_t fiber, const char *name)
{
    FUT_DO_PROBE1STR(FUT_SET_THREAD_NAME_CODE, fiber, name);
}

#endif
