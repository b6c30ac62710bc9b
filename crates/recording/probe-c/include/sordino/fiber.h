/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Events about fibers, for libraries that schedule fibers by themselves on threads, in C (C11) and C++ (C++17).
 *
 * A fiber is whatever such a library runs: a user-level thread, a task, a coroutine. Its number is not 0, and no other
 * living fiber of the process has it: the address of its control block will do. With these events, a recording contains
 * the fiber that each thread runs at any time.
 *
 *     #include <sordino/fiber.h>
 *
 *     static void run(struct fiber *next)
 *     {
 *         sordino_fiber_switch(0, next->number, SORDINO_FIBER_RESUMED, NULL);
 *         swapcontext(&scheduler, &next->context);
 *     }
 *
 * The calls are hits of ordinary tracepoints, whose schema docs/fibers.md describes, so what sordino/tracepoint.h says
 * on real time holds for them. Every file that includes this header declares them; the program has each once.
 */
#ifndef SORDINO_FIBER_H
#define SORDINO_FIBER_H

#include <sordino/tracepoint.h>

/* The reason for a switch. */
enum sordino_fiber_why {
    SORDINO_FIBER_UNKNOWN = 0,
    SORDINO_FIBER_YIELDED = 1,    /* the fiber let others run, and is ready */
    SORDINO_FIBER_SLICE_OVER = 2, /* the scheduler took the thread from the fiber, which is ready */
    SORDINO_FIBER_BLOCKED = 3,    /* the fiber waits until another event wakes it */
    SORDINO_FIBER_ENDED = 4,
    SORDINO_FIBER_RESUMED = 5     /* from no fiber: the scheduler starts or resumes one */
};

SORDINO_LABELS(sordino_fiber_why, (SORDINO_FIBER_UNKNOWN, "unknown"), (SORDINO_FIBER_YIELDED, "yielded"),
    (SORDINO_FIBER_SLICE_OVER, "slice over"), (SORDINO_FIBER_BLOCKED, "blocked"), (SORDINO_FIBER_ENDED, "ended"),
    (SORDINO_FIBER_RESUMED, "resumed"))

SORDINO_TRACEPOINT(sordino_fiber, thread_enter, SORDINO_INFO, (string, scheduler))
SORDINO_TRACEPOINT(sordino_fiber, thread_leave, SORDINO_INFO)
SORDINO_TRACEPOINT(sordino_fiber, new, SORDINO_INFO, (u64, fiber), (string, name))
SORDINO_TRACEPOINT(sordino_fiber, switch, SORDINO_INFO,
    (u64, from), (u64, to), (enumeration, sordino_fiber_why, u8, why), (string, on))
SORDINO_TRACEPOINT(sordino_fiber, end, SORDINO_INFO, (u64, fiber))
SORDINO_TRACEPOINT(sordino_fiber, wake, SORDINO_INFO, (u64, fiber), (u64, by))
SORDINO_TRACEPOINT(sordino_fiber, rename, SORDINO_INFO, (u64, fiber), (string, name))

#ifdef __cplusplus
extern "C" {
#endif

/* Records that the calling thread begins to schedule fibers of the named scheduler. */
SORDINO_OWN static inline void sordino_fiber_thread_enter(const char *scheduler)
{
    sordino_tracepoint(sordino_fiber, thread_enter, scheduler);
}

/* Records that the calling thread schedules no fibers any more. */
SORDINO_OWN static inline void sordino_fiber_thread_leave(void)
{
    sordino_tracepoint(sordino_fiber, thread_leave);
}

/* Records a new fiber. Its name may be NULL. */
SORDINO_OWN static inline void sordino_fiber_new(uint64_t fiber, const char *name)
{
    const uint64_t enabled = SORDINO_ENABLED(sordino_point_sordino_fiber_new);
    if (__builtin_expect(enabled == 0, 1))
        return;
    /* An empty text is one zero byte, a scalar, as in sordino_fiber_switch. */
    if (name == NULL || *name == 0)
        sordino_emit_scalars(&sordino_point_sordino_fiber_new, enabled, SORDINO_LAYOUT(8, 1, 0), fiber, 0, 0);
    else
        sordino_hit_sordino_fiber_new(fiber, name, enabled);
}

/* Records that the calling thread stops to run the fiber 'from', and runs the fiber 'to'; 0 for either stands for the
 * scheduler, or the thread's own code. To be called by the thread directly before the switch. 'on' names the thing on
 * which 'from' is blocked, and may be NULL. */
SORDINO_OWN static inline void sordino_fiber_switch(
    uint64_t from, uint64_t to, enum sordino_fiber_why why, const char *on)
{
    const uint64_t enabled = SORDINO_ENABLED(sordino_point_sordino_fiber_switch);
    if (__builtin_expect(enabled == 0, 1))
        return;
    /* An empty text is one zero byte: with 'why', a scalar of two bytes, and a hit of three scalars costs half of one
     * with a text. */
    if (on == NULL || *on == 0)
        sordino_emit_scalars(&sordino_point_sordino_fiber_switch, enabled, SORDINO_LAYOUT(8, 8, 2), from, to, (uint8_t)why);
    else
        sordino_hit_sordino_fiber_switch(from, to, (uint8_t)why, on, enabled);
}

/* Records the end of a fiber, behind its last switch. Its number may belong to a new fiber afterwards. */
SORDINO_OWN static inline void sordino_fiber_end(uint64_t fiber)
{
    sordino_tracepoint(sordino_fiber, end, fiber);
}

/* Records that a blocked fiber becomes ready, because of the fiber 'by', or 0. */
SORDINO_OWN static inline void sordino_fiber_wake(uint64_t fiber, uint64_t by)
{
    sordino_tracepoint(sordino_fiber, wake, fiber, by);
}

/* Records another name of a fiber. */
SORDINO_OWN static inline void sordino_fiber_rename(uint64_t fiber, const char *name)
{
    sordino_tracepoint(sordino_fiber, rename, fiber, name ? name : "");
}

#ifdef __cplusplus
}
#endif

#endif /* SORDINO_FIBER_H */
