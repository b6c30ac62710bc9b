/* Counters of calls, each beside the function that it counts: for programs that are compiled with
 * -finstrument-functions. */
#ifndef INSTRUMENTED_H
#define INSTRUMENTED_H

#ifdef __cplusplus
extern "C" {
#endif

enum counted { MAIN, STEP, RECURSE, INLINED, RISKY, MIDDLE, HANDLER, JUMP, CATCHER, LOCAL, LIBRARY, CALLBACK, KINDS };
extern long counts[KINDS];
#define COUNT(kind) (counts[kind]++)

/* Of the shared library; calls back. */
int library_work(int n, int (*callback)(int));

#ifdef __cplusplus
}
#endif

#endif
