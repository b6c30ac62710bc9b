/* Cost of a hit when many threads hit at once, beside reading the clock the same way: scaling THREADS BURSTS
 * One thread runs on CPU 1, two on CPUs 0 and 1; the scheduler distributes more over both. Prints the clock readings
 * and the hits of all threads together in a nanosecond: the median burst of each. */
#include "common.h"
#include "tracer.h"
#include <pthread.h>

enum { BURST = 2000000, KINDS = 2, THREADS = 64 };

static pthread_barrier_t begin, end;
static int threads, bursts;

static void work(int kind)
{
    const uint64_t count = BURST / (uint64_t)threads;

    if (kind == 0)
        for (uint64_t i = 0; i < count; i++)
            USE(__rdtsc());
    else
        for (uint64_t i = 0; i < count; i++) {
            HIT(i, i);
            USE(i);
        }
}

static void *thread(void *number)
{
    if (threads <= 2)
        stay_on(threads == 1 ? 1 : (int)(intptr_t)number);
    HIT(0, 0);
    for (int burst = 0; burst < bursts * KINDS; burst++) {
        pthread_barrier_wait(&begin);
        work(burst % KINDS);
        pthread_barrier_wait(&end);
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    pthread_t ids[THREADS];
    double *times[KINDS];

    threads = argc > 1 ? atoi(argv[1]) : 1;
    bursts = argc > 2 ? atoi(argv[2]) : 10;
    if (threads < 1 || threads > THREADS || bursts < 1)
        return 2;
    pthread_barrier_init(&begin, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&end, NULL, (unsigned)threads + 1);
    for (int kind = 0; kind < KINDS; kind++)
        times[kind] = calloc((size_t)bursts, sizeof(double));
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, thread, (void *)(intptr_t)i);
    for (int burst = 0; burst < bursts * KINDS; burst++) {
        /* All others are waiting by now, so the time is read first: once released, they have the CPUs. */
        const double from = seconds();
        pthread_barrier_wait(&begin);
        pthread_barrier_wait(&end);
        times[burst % KINDS][burst / KINDS] = seconds() - from;
        /* Waits until the collector has emptied the rings. */
        sleep_ms(300);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    for (int kind = 0; kind < KINDS; kind++) {
        qsort(times[kind], (size_t)bursts, sizeof(double), compare);
        printf("%.6f ", BURST / (times[kind][bursts / 2] * 1e9));
    }
    printf("\n");
    return 0;
}
