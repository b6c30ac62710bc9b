/* Kinds in which the victim is runnable and has no CPU: other threads precede it, or a limit is reached. */
#include "common.h"

static void *hogs(void *delay)
{
    for (;;) {
        sem_wait(&asked);
        if (delay)
            rest((long)delay);
        measured = spin(3 * MS);
        sem_post(&answered);
    }
    return NULL;
}

static void *alternating_hogs(void *delay)
{
    const struct sched_param param = { .sched_priority = VICTIM };
    pthread_setschedparam(pthread_self(), SCHED_RR, &param);
    return hogs(delay);
}

/* struct sched_attr of <linux/sched/types.h>, which can't be included beside <sched.h>. */
struct deadline {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/* The thread stays on its CPU while that one's has no deadline. */
static void become_deadline(long runtime, long period)
{
    const struct deadline attributes = { .size = sizeof attributes, .policy = 6 /* SCHED_DEADLINE */,
        .runtime = runtime, .deadline = period, .period = period };
    cpu_set_t all;
    CPU_ZERO(&all);
    for (long each = 0; each < sysconf(_SC_NPROCESSORS_CONF); each++)
        CPU_SET(each, &all);
    if (sched_setaffinity(0, sizeof all, &all) != 0 || syscall(SYS_sched_setattr, 0, &attributes, 0) != 0)
        refused("SCHED_DEADLINE");
}

static void *hogs_with_deadline(void *unused)
{
    become_deadline(20 * MS, 40 * MS);
    return hogs(unused);
}

static long preempted(void)
{
    ask();
    sem_wait(&answered);
    return measured;
}

static long woken_behind(void)
{
    /* The hog begins half a millisecond from now. */
    const long begin = now();
    ask();
    rest(MS);
    const long late = now() - begin - MS;
    sem_wait(&answered);
    return late;
}

static long yields(void)
{
    ask();
    sched_yield();
    sem_wait(&answered);
    return measured;
}

static void *hogs_elsewhere(void *unused)
{
    for (;;) {
        sem_wait(&asked);
        sem_post(&answered);
        measured = spin(3 * MS);
    }
    return unused;
}

static long moves(void)
{
    ask();
    /* The hog of the other CPU is running. */
    sem_wait(&answered);
    const long begin = now();
    run_on(other_cpu);
    const long end = now();
    run_on(cpu);
    return end - begin;
}

/* Limits. */

static void *burns(void *unused)
{
    for (;;) {
        sem_wait(&asked);
        spin(2000 * MS);
    }
    return unused;
}

static long time_of(pthread_t thread)
{
    struct timespec time;
    clockid_t clock;
    pthread_getcpuclockid(thread, &clock);
    clock_gettime(clock, &time);
    return time.tv_sec * 1000 * MS + time.tv_nsec;
}

/* The ordinary thread has waited for most of a second when the round begins. */
static long beside_fair(void)
{
    const long begin = time_of(disturber);
    longest_stop(500 * MS, 10 * MS);
    return time_of(disturber) - begin;
}

/* The first stop may be a short one: the end of a period. */
static long uses_up(void)
{
    const long first = longest_stop(200 * MS, MS);
    return first >= 10 * MS ? first : first + longest_stop(200 * MS, 10 * MS);
}
