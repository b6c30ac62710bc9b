/* Events before main and after it, in C and C++. */
#include <sordino/tracepoint.h>
#include <stdlib.h>

SORDINO_TRACEPOINT(early, step, SORDINO_INFO, (u32, number))

__attribute__((constructor)) static void before_main(void)
{
    sordino_tracepoint(early, step, 1);
}

__attribute__((destructor)) static void after_main(void)
{
    sordino_tracepoint(early, step, 5);
}

#ifdef __cplusplus
struct Static {
    Static() { sordino_tracepoint(early, step, 2); }
    ~Static() { sordino_tracepoint(early, step, 4); }
};
static Static initialised;
#else
__attribute__((constructor(200))) static void before_that(void)
{
    sordino_tracepoint(early, step, 2);
}

static void at_exit(void)
{
    sordino_tracepoint(early, step, 4);
}
#endif

int main(void)
{
#ifndef __cplusplus
    atexit(at_exit);
#endif
    sordino_tracepoint(early, step, 3);
    return 0;
}
