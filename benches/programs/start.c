/* Hits an event some times, with or without tracepoints, and ends: start [TIMES [stay|main]]. Its run time is measured
 * from outside. One that stays ends with its input; with main, prints the time in ns at which main began. */
#include "tracer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const int times = argc > 1 ? atoi(argv[1]) : 1;
    const char *how = argc > 2 ? argv[2] : "";
    struct timespec began;
    char byte;

    clock_gettime(CLOCK_MONOTONIC, &began);
    for (int i = 0; i < times; i++)
        HIT(1, 2);
    if (strcmp(how, "main") == 0)
        printf("%lld\n", began.tv_sec * 1000000000LL + began.tv_nsec);
    if (strcmp(how, "stay") == 0)
        (void)!read(0, &byte, 1);
    return 0;
}
