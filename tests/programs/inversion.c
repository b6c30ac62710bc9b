/* Three threads on one CPU: the low one takes a lock, the high one waits for it, and the medium one preempts the low
 * one before it releases the lock. Five times, each between lock:begin and lock:end of the high one.
 *
 *     inversion CPU plain|inherit
 *
 * With 'inherit', the lock has priority inheritance: the low thread runs at the high one's priority, and the medium one
 * does not preempt it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

SORDINO_TRACEPOINT(lock, begin, SORDINO_INFO, (u32, round))
SORDINO_TRACEPOINT(lock, end, SORDINO_INFO, (u32, round))

enum { ROUNDS = 5 };

static pthread_mutex_t lock;
static sem_t go_low, go_medium, go_high;

/* Time of this thread's CPU clock, which excludes preemption. */
static void compute(long ms)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do {
        /* Reading that clock is a system call, and each one is in the trace. */
        for (volatile int step = 0; step < 50000; step++)
            ;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < ms * 1000000);
}

/* Each post below lets a thread of higher priority run at once. */
static void *low(void *unused)
{
    pthread_setname_np(pthread_self(), "low");
    for (int round = 0; round < ROUNDS; round++) {
        sem_wait(&go_low);
        pthread_mutex_lock(&lock);
        sem_post(&go_high);
        compute(1);
        sem_post(&go_medium);
        compute(1);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *medium(void *unused)
{
    pthread_setname_np(pthread_self(), "medium");
    for (int round = 0; round < ROUNDS; round++) {
        sem_wait(&go_medium);
        compute(10);
    }
    return unused;
}

static void *high(void *unused)
{
    pthread_setname_np(pthread_self(), "high");
    for (uint32_t round = 0; round < ROUNDS; round++) {
        sem_post(&go_low);
        sem_wait(&go_high);
        sordino_tracepoint(lock, begin, round);
        pthread_mutex_lock(&lock);
        sordino_tracepoint(lock, end, round);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static pthread_t start(void *(*run)(void *), int priority, int cpu)
{
    pthread_t thread;
    pthread_attr_t attributes;
    const struct sched_param param = { .sched_priority = priority };
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &param);
    pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
    if (pthread_create(&thread, &attributes, run, NULL) != 0)
        exit(2);
    return thread;
}

int main(int argc, char **argv)
{
    pthread_mutexattr_t attributes;
    pthread_t threads[3];

    if (argc != 3)
        return 2;
    pthread_mutexattr_init(&attributes);
    if (strcmp(argv[2], "inherit") == 0)
        pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&lock, &attributes);
    threads[0] = start(low, 10, atoi(argv[1]));
    threads[1] = start(medium, 20, atoi(argv[1]));
    threads[2] = start(high, 30, atoi(argv[1]));
    for (int thread = 0; thread < 3; thread++)
        pthread_join(threads[thread], NULL);
    return 0;
}
