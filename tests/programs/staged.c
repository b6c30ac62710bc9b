/* Twenty requests of the main thread. The thread 'first' takes each and passes it on, and the thread 'second' answers
 * it. For number 5, 'first' runs 20 ms without preemption, which requires root; before the answer to number 7, 'second'
 * sleeps for 50 ms. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sordino/tracepoint.h>
#include <time.h>

SORDINO_TRACEPOINT(net, request, SORDINO_INFO, (u32, id))
SORDINO_TRACEPOINT(net, take, SORDINO_INFO, (u32, id))
SORDINO_TRACEPOINT(net, hand_on, SORDINO_INFO, (u32, id))
SORDINO_TRACEPOINT(net, receive, SORDINO_INFO, (u32, id))
SORDINO_TRACEPOINT(net, answer, SORDINO_INFO, (u32, id))

static sem_t requested, handed_on, answered;

static void run(long ms)
{
    const struct sched_param most = { .sched_priority = 90 }, none = { 0 };
    struct timespec begin, now;
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &most);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &none);
}

static void *takes(void *unused)
{
    pthread_setname_np(pthread_self(), "first");
    for (uint32_t id = 0; id < 20; id++) {
        sem_wait(&requested);
        sordino_tracepoint(net, take, id);
        if (id == 5)
            run(20);
        sordino_tracepoint(net, hand_on, id);
        sem_post(&handed_on);
    }
    return unused;
}

static void *answers(void *unused)
{
    const struct timespec time = { 0, 50000000 };
    pthread_setname_np(pthread_self(), "second");
    for (uint32_t id = 0; id < 20; id++) {
        sem_wait(&handed_on);
        sordino_tracepoint(net, receive, id);
        if (id == 7)
            nanosleep(&time, NULL);
        sordino_tracepoint(net, answer, id);
        sem_post(&answered);
    }
    return unused;
}

int main(void)
{
    pthread_t first, second;
    sem_init(&requested, 0, 0);
    sem_init(&handed_on, 0, 0);
    sem_init(&answered, 0, 0);
    pthread_create(&first, NULL, takes, NULL);
    pthread_create(&second, NULL, answers, NULL);
    for (uint32_t id = 0; id < 20; id++) {
        sordino_tracepoint(net, request, id);
        sem_post(&requested);
        sem_wait(&answered);
    }
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    return 0;
}
