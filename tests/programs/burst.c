/* Threads that write numbered events as fast as they can: burst [threads] [events each] [pause] [faults]
 * faults: prints the threads' page faults after their first tenth, in which they touch their own code and stacks. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sordino/tracepoint.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

SORDINO_TRACEPOINT(burst, step, SORDINO_INFO, (u32, thread), (u64, number))

static uint64_t events;
static int pause_between;
static atomic_long faults;

static long faults_so_far(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static void *work(void *argument)
{
    const uint32_t thread = (uint32_t)(uintptr_t)argument;
    long before = 0;
    for (uint64_t number = 0; number < events; number++) {
        if (number == 0 || number == events / 10)
            before = faults_so_far();
        sordino_tracepoint(burst, step, thread, number);
        for (volatile int i = 0; i < pause_between; i++)
            ;
    }
    faults += faults_so_far() - before;
    return NULL;
}

int main(int argc, char **argv)
{
    const unsigned long threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    pthread_t thread[64];
    events = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
    pause_between = argc > 3 ? atoi(argv[3]) : 0;
    if (threads > 64)
        return 3;
    for (unsigned long i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, work, (void *)i);
    for (unsigned long i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    if (argc > 4)
        printf("faults=%ld\n", faults);
    return 0;
}
