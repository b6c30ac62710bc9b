/* Twenty requests of one thread, answered by another; the answer to number 7 takes 50 ms. In each thread, work begins and
 * ends; the end of number 3 comes 30 ms after its begin. */
#include <pthread.h>
#include <semaphore.h>
#include <sordino/tracepoint.h>
#include <time.h>

SORDINO_TRACEPOINT(net, request, SORDINO_INFO, (u32, id))
SORDINO_TRACEPOINT(net, answer, SORDINO_INFO, (u32, id))
SORDINO_TRACEPOINT(work, begin, SORDINO_INFO, (u32, id))
SORDINO_TRACEPOINT(work, end, SORDINO_INFO, (u32, id))

static sem_t requested, answered;

static void rest(long ms)
{
    const struct timespec time = { 0, ms * 1000000 };
    nanosleep(&time, NULL);
}

static void *answers(void *unused)
{
    for (uint32_t id = 0; id < 20; id++) {
        sem_wait(&requested);
        if (id == 7)
            rest(50);
        sordino_tracepoint(net, answer, id);
        sem_post(&answered);
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    sem_init(&requested, 0, 0);
    sem_init(&answered, 0, 0);
    pthread_create(&thread, NULL, answers, NULL);
    for (uint32_t id = 0; id < 20; id++) {
        sordino_tracepoint(net, request, id);
        sem_post(&requested);
        sem_wait(&answered);
        sordino_tracepoint(work, begin, id);
        if (id == 3)
            rest(30);
        sordino_tracepoint(work, end, id);
    }
    pthread_join(thread, NULL);
    return 0;
}
