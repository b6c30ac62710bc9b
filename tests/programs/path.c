/* Counts the system calls, page faults and allocations of recorded events. Any system call except those for measuring
 * and ending kills the program. With UNLOCKED, no page of the area is present before recording begins. */
#define _GNU_SOURCE
#include "filter.h"
#include <pthread.h>
#include <sched.h>
#include <sordino/tracepoint.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

SORDINO_TRACEPOINT(path, main_thread, SORDINO_INFO, (u64, number))
SORDINO_TRACEPOINT(path, other_thread, SORDINO_INFO, (u64, number), (string, text))
SORDINO_TRACEPOINT(path, each_cpu, SORDINO_INFO, (u32, cpu))

/* A static program is linked with --wrap, which puts these in the place of the C library's. */
#ifdef STATIC
#define OURS(name) __wrap_##name
#define THEIRS(name) __real_##name
#else
#define OURS(name) name
#define THEIRS(name) __libc_##name
#endif

extern void *THEIRS(malloc)(size_t), *THEIRS(calloc)(size_t, size_t), *THEIRS(realloc)(void *, size_t);
extern void *THEIRS(memalign)(size_t, size_t);
void OURS(free)(void *), THEIRS(free)(void *);
void *OURS(malloc)(size_t), *OURS(calloc)(size_t, size_t), *OURS(realloc)(void *, size_t), *OURS(memalign)(size_t, size_t);

static atomic_long allocations;

void *OURS(malloc)(size_t size) { allocations++; return THEIRS(malloc)(size); }
void *OURS(calloc)(size_t count, size_t size) { allocations++; return THEIRS(calloc)(count, size); }
void *OURS(realloc)(void *old, size_t size) { allocations++; return THEIRS(realloc)(old, size); }
void *OURS(memalign)(size_t alignment, size_t size) { allocations++; return THEIRS(memalign)(alignment, size); }
void OURS(free)(void *old) { allocations += old != NULL; THEIRS(free)(old); }

static atomic_int go, gone;

static void *other(void *unused)
{
    while (!go)
        ;
    for (uint64_t i = 0; i < 1000; i++)
        sordino_tracepoint(path, other_thread, i, "a thread's first event is as cheap as any other");
    gone = 1;
    while (gone)
        ;
    return unused;
}

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

#ifdef UNLOCKED
/* The state of a program that has touched all of its memory but the part that it shares with recorders. */
static void forget_area(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long begin, end;
    char line[512];
    munlockall();
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:sordino") && sscanf(line, "%lx-%lx", &begin, &end) == 2)
            madvise((void *)begin, end - begin, MADV_DONTNEED);
    fclose(maps);
}
#endif

int main(int argc, char **argv)
{
    const uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    const unsigned allowed[] = {SYS_getrusage, SYS_sched_setaffinity, SYS_write, SYS_exit_group};
    const int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    char line[128];
    pthread_t thread;

    pthread_create(&thread, NULL, other, NULL);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        return 3;
#ifdef UNLOCKED
    forget_area();
#endif
    puts("ready");
    fflush(stdout);
    while (!sordino_enabled(path, main_thread) || !sordino_enabled(path, other_thread) || !sordino_enabled(path, each_cpu))
        ;
    filter(allowed, 4, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);

    const long allocated = allocations, faulted = faults();
    for (uint64_t i = 0; i < events; i++)
        sordino_tracepoint(path, main_thread, i);
    go = 1;
    while (!gone)
        ;
    for (int cpu = 0; cpu < cpus; cpu++) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof set, &set);
        sordino_tracepoint(path, each_cpu, (uint32_t)cpu);
    }
    const long more_faults = faults() - faulted, more_allocations = allocations - allocated;
    const int length = snprintf(line, sizeof line, "faults=%ld allocations=%ld\n", more_faults, more_allocations);
    syscall(SYS_write, 1, line, (size_t)length);
    syscall(SYS_exit_group, 0);
}
