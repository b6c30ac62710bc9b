/* A shared library that is compiled with -finstrument-functions. */
#include "instrumented.h"

long counts[KINDS];

__attribute__((noinline)) static int local(int n)
{
    COUNT(LOCAL);
    return n + 1;
}

int library_work(int n, int (*callback)(int))
{
    COUNT(LIBRARY);
    return callback(local(n));
}
