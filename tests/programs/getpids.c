/* An event between any two of many system calls: getpids COUNT [CPU]. */
#define _GNU_SOURCE
#include <sched.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

SORDINO_TRACEPOINT(getpids, between, SORDINO_INFO, (u64, number))

int main(int argc, char **argv)
{
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    if (argc > 2) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(atoi(argv[2]), &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            return 3;
    }
    syscall(SYS_getpid);
    for (uint64_t number = 0; number < count; number++) {
        sordino_tracepoint(getpids, between, number);
        syscall(SYS_getpid);
    }
    return 0;
}
