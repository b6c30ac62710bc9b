/* Forks children while other threads write as fast as they can: forks CHILDREN EVENTS. Each child writes that many events. */
#include <pthread.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

SORDINO_TRACEPOINT(forks, parent, SORDINO_INFO, (u32, thread), (u64, number))
SORDINO_TRACEPOINT(forks, child, SORDINO_INFO, (u32, child), (u64, number))

enum { THREADS = 2 };

static volatile int stop;
static uint64_t written[THREADS];

static void *work(void *argument)
{
    const uint32_t thread = (uint32_t)(uintptr_t)argument;
    for (; !stop; written[thread]++) {
        sordino_tracepoint(forks, parent, thread, written[thread]);
        for (volatile int i = 0; i < 2000; i++)
            ;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const uint32_t children = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    const uint64_t events = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    pthread_t thread[THREADS];
    int status, failed = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, work, (void *)i);
    for (uint32_t child = 0; child < children; child++) {
        if (fork() == 0) {
            for (uint64_t number = 0; number < events; number++)
                sordino_tracepoint(forks, child, child, number);
            _exit(0);
        }
        failed |= wait(&status) < 0 || status != 0;
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    printf("%llu %llu\n", (unsigned long long)written[0], (unsigned long long)written[1]);
    return failed;
}
