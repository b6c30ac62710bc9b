/* Fibers on threads that share a queue, and one that polls a pipe and yields: two_levels THREADS WORKERS ROUNDS
 *
 * Prints "FIBER NS" for each fiber: the CPU time that its threads spent with it, by their own clocks. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <sordino/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK (256 * 1024)
#define MOST 64
#define BURST 200000 /* ns */
#define DAEMON 1

SORDINO_TRACEPOINT(sordino_fiber, thread_enter, SORDINO_INFO, (string, scheduler))
SORDINO_TRACEPOINT(sordino_fiber, thread_leave, SORDINO_INFO)
SORDINO_TRACEPOINT(sordino_fiber, new, SORDINO_INFO, (u64, fiber), (string, name))
SORDINO_TRACEPOINT(sordino_fiber, switch, SORDINO_INFO, (u64, from), (u64, to), (u8, why), (string, on))
SORDINO_TRACEPOINT(sordino_fiber, end, SORDINO_INFO, (u64, fiber))
SORDINO_TRACEPOINT(fibers, round, SORDINO_INFO, (u32, worker), (u32, number))
SORDINO_TRACEPOINT(fibers, sent, SORDINO_INFO, (u32, id))
SORDINO_TRACEPOINT(fibers, received, SORDINO_INFO, (u32, id))

enum why { UNKNOWN, YIELDED, SLICE_OVER, BLOCKED, ENDED, RESUMED };

struct fiber {
    uint64_t number;
    ucontext_t context, *scheduler;
    enum why why;
    uint64_t cpu;
};

static struct fiber fibers[MOST];
static struct fiber *queue[MOST];
static unsigned head, tail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int alive, workers_alive, rounds, messages[2];

/* No function that has its address of a thread's variable may go on on another thread. */
#define ON_ONE_THREAD __attribute__((noinline))

ON_ONE_THREAD static uint64_t cpu_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

ON_ONE_THREAD static void burn(void)
{
    uint64_t end = cpu_time() + BURST;
    while (cpu_time() < end)
        for (volatile int i = 0; i < 1000; i++)
            ;
}

ON_ONE_THREAD static void worked(struct fiber *fiber, int number)
{
    sordino_tracepoint(fibers, round, (uint32_t)fiber->number, (uint32_t)number);
}

ON_ONE_THREAD static void poll_once(void)
{
    uint32_t id;
    if (read(messages[0], &id, sizeof id) == sizeof id)
        sordino_tracepoint(fibers, received, id);
}

static void leave(struct fiber *fiber, enum why why)
{
    fiber->why = why;
    swapcontext(&fiber->context, fiber->scheduler);
}

static void work(int index)
{
    struct fiber *fiber = &fibers[index];
    for (int number = 0; number < rounds; number++) {
        burn();
        worked(fiber, number);
        leave(fiber, SLICE_OVER);
    }
    __atomic_sub_fetch(&workers_alive, 1, __ATOMIC_SEQ_CST);
    leave(fiber, ENDED);
}

static void serve(int index)
{
    while (__atomic_load_n(&workers_alive, __ATOMIC_SEQ_CST) > 0) {
        poll_once();
        leave(&fibers[index], YIELDED);
    }
    leave(&fibers[index], ENDED);
}

static struct fiber *take(void)
{
    pthread_mutex_lock(&lock);
    struct fiber *fiber = head == tail ? NULL : queue[head++ % MOST];
    pthread_mutex_unlock(&lock);
    return fiber;
}

static void give(struct fiber *fiber)
{
    pthread_mutex_lock(&lock);
    queue[tail++ % MOST] = fiber;
    pthread_mutex_unlock(&lock);
}

/* Records a switch, and gives up the fiber that leaves only then: another thread may take it at once. */
ON_ONE_THREAD static void change(struct fiber *from, struct fiber *to)
{
    enum why why = from ? from->why : RESUMED;
    sordino_tracepoint(sordino_fiber, switch, from ? from->number : 0, to ? to->number : 0, (uint8_t)why, "");
    if (from && why == ENDED) {
        sordino_tracepoint(sordino_fiber, end, from->number);
        __atomic_sub_fetch(&alive, 1, __ATOMIC_SEQ_CST);
    } else if (from) {
        give(from);
    }
}

static void *schedule(void *unused)
{
    ucontext_t own;
    struct fiber *from = NULL;
    sordino_tracepoint(sordino_fiber, thread_enter, "queue");
    while (__atomic_load_n(&alive, __ATOMIC_SEQ_CST) > 0) {
        struct fiber *to = take();
        if (!to && from && from->why != ENDED)
            to = from;
        if (to != from && (to || from))
            change(from, to);
        from = to;
        if (!to) {
            usleep(50);
            continue;
        }
        uint64_t before = cpu_time();
        to->scheduler = &own;
        swapcontext(&own, &to->context);
        to->cpu += cpu_time() - before;
    }
    sordino_tracepoint(sordino_fiber, thread_leave);
    return unused;
}

static void *send(void *unused)
{
    for (uint32_t id = 0; __atomic_load_n(&workers_alive, __ATOMIC_SEQ_CST) > 0; id++) {
        usleep(3000);
        sordino_tracepoint(fibers, sent, id);
        if (write(messages[1], &id, sizeof id) != sizeof id)
            break;
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST], sender;
    int count = argc > 1 ? atoi(argv[1]) : 2;
    workers_alive = argc > 2 ? atoi(argv[2]) : 20;
    rounds = argc > 3 ? atoi(argv[3]) : 50;
    if (count >= MOST || workers_alive + DAEMON >= MOST || pipe(messages) != 0)
        return 2;
    fcntl(messages[0], F_SETFL, O_NONBLOCK);
    alive = workers_alive + DAEMON;
    for (int index = 0, all = alive; index < all; index++) {
        struct fiber *fiber = &fibers[index];
        char name[32];
        snprintf(name, sizeof name, "work/%d", index - DAEMON);
        fiber->number = (uint64_t)index + 1;
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = malloc(STACK);
        fiber->context.uc_stack.ss_size = STACK;
        makecontext(&fiber->context, (void (*)(void))(index < DAEMON ? serve : work), 1, index);
        sordino_tracepoint(sordino_fiber, new, fiber->number, index < DAEMON ? "daemon" : name);
        give(fiber);
    }
    pthread_create(&sender, NULL, send, NULL);
    for (int index = 0; index < count; index++)
        pthread_create(&threads[index], NULL, schedule, NULL);
    for (int index = 0; index < count; index++)
        pthread_join(threads[index], NULL);
    pthread_join(sender, NULL);
    for (struct fiber *fiber = fibers; fiber->number; fiber++)
        printf("%llu %llu\n", (unsigned long long)fiber->number, (unsigned long long)fiber->cpu);
    return 0;
}
