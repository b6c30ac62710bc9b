/* Twin of stepped.c for LTTng-UST: stepped_lttng two_words TIMES */
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "stepped_lttng.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const unsigned long times = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    sigset_t begin;
    int number;

    sigemptyset(&begin);
    sigaddset(&begin, SIGUSR2);
    sigprocmask(SIG_BLOCK, &begin, NULL);
    puts("ready");
    fflush(stdout);
    sigwait(&begin, &number);
    for (uint64_t i = 0; i < times; i++) {
        __asm__ volatile("int3" : : : "memory");
        lttng_ust_tracepoint(stepped, two_words, i, ~i);
        __asm__ volatile("int3" : : : "memory");
    }
    return 0;
}
