/* Hundreds of short-lived threads: crowd THREADS. Each hits three events, and ends. */
#include <pthread.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>

SORDINO_TRACEPOINT(crowd, step, SORDINO_INFO, (u32, thread), (u32, number))

static void *work(void *argument)
{
    for (uint32_t number = 0; number < 3; number++)
        sordino_tracepoint(crowd, step, (uint32_t)(uintptr_t)argument, number);
    return NULL;
}

int main(int argc, char **argv)
{
    const unsigned long threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    pthread_t alive[8];
    for (unsigned long i = 0; i < threads; i++) {
        if (i >= 8)
            pthread_join(alive[i % 8], NULL);
        pthread_create(&alive[i % 8], NULL, work, (void *)i);
    }
    return 0;
}
