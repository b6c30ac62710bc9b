/* A thousand tracepoints, one of which is hit all the time on one CPU until SIGTERM: points CPU */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>

#define POINT(n) SORDINO_TRACEPOINT(points, p##n, SORDINO_INFO, (u64, number), (u64, again))
#define TEN(n) POINT(n##0) POINT(n##1) POINT(n##2) POINT(n##3) POINT(n##4) POINT(n##5) POINT(n##6) POINT(n##7) POINT(n##8) POINT(n##9)
#define HUNDRED(n) TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)
HUNDRED(0) HUNDRED(1) HUNDRED(2) HUNDRED(3) HUNDRED(4)
HUNDRED(5) HUNDRED(6) HUNDRED(7) HUNDRED(8) HUNDRED(9)

static volatile sig_atomic_t stop;

static void on_term(int signal)
{
    (void)signal;
    stop = 1;
}

int main(int argc, char **argv)
{
    uint64_t number = 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(argc > 1 ? (size_t)atoi(argv[1]) : 0, &set);
    sched_setaffinity(0, sizeof set, &set);
    signal(SIGTERM, on_term);
    puts("ready");
    fflush(stdout);
    for (; !stop; number++)
        sordino_tracepoint(points, p000, number, number);
    return 0;
}
