/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Events about functions: their entries and exits, in C (C11) and C++ (C++17).
 *
 *     #include <sordino/function.h>
 *
 *     int solve(const struct problem *problem)
 *     {
 *         SORDINO_FUNCTION_IN(solve);
 *         int result = iterate(problem);
 *         SORDINO_FUNCTION_OUT(solve);
 *         return result;
 *     }
 *
 * Compiled with -finstrument-functions, functions need no such lines: libsordino-functions has the calls that the
 * compiler inserts. The entries and exits are hits of ordinary tracepoints, whose schema docs/functions.md describes, so
 * what sordino/tracepoint.h says on real time holds for them.
 */
#ifndef SORDINO_FUNCTION_H
#define SORDINO_FUNCTION_H

#include <sordino/tracepoint.h>

SORDINO_TRACEPOINT(sordino_function, entry, SORDINO_DEBUG_FUNCTION, (u64x, function), (u64x, call_site))
SORDINO_TRACEPOINT(sordino_function, exit, SORDINO_DEBUG_FUNCTION, (u64x, function), (u64x, call_site))

/* Records that the calling thread enters the function of this name; or leaves it, on each way out. Only the address is
 * recorded. So the name may also be that of a variable with static storage that stands for the function: a method of C++
 * has no address that could be recorded. */
#define SORDINO_FUNCTION_IN(name) sordino_tracepoint(sordino_function, entry, (uint64_t)(uintptr_t)&(name), 0)
#define SORDINO_FUNCTION_OUT(name) sordino_tracepoint(sordino_function, exit, (uint64_t)(uintptr_t)&(name), 0)

#endif /* SORDINO_FUNCTION_H */
