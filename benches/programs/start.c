/* Hits an event some times, with or without tracepoints, and ends: start [TIMES]. Its run time is measured from
 * outside. */
#include "tracer.h"
#include <stdlib.h>

int main(int argc, char **argv)
{
    const int times = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < times; i++)
        HIT(1, 2);
    return 0;
}
