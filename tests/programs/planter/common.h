/* Shared parts of all kinds of disturbance: clocks, threads, and the words between the victim and the disturbing
 * thread. */
#ifndef COMMON_H
#define COMMON_H
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VICTIM = 50, ABOVE = 60, BETWEEN = 30, BELOW = 10 };

static const long MS = 1000000;
/* CPU of the victim, and the one beside it. */
static int cpu, other_cpu;
static pthread_t victim, disturber;
static sem_t asked, answered;
static int ends[2];
/* Length of the disturbance that the disturbing thread measured, in ns. */
static volatile long measured;
static volatile long began;
/* Time at which the victim had asked for it: waking the thread may take long by itself. */
static volatile long has_asked;

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 * MS + time.tv_nsec;
}

static long spin(long ns)
{
    long begin = now(), end = begin;
    while (end - begin < ns)
        end = now();
    return end - begin;
}

static void rest(long ns)
{
    const struct timespec time = { .tv_nsec = ns };
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static void refused(const char *what)
{
    printf("refused: %s: %s\n", what, strerror(errno));
    exit(3);
}

static void ask(void)
{
    sem_post(&asked);
    has_asked = now();
}

/* Time since which the victim has waited for the thread that works for it. */
static long awaited_since(void)
{
    return has_asked > began ? has_asked : began;
}

static void run_on(int one)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(one, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

static pthread_t start(const char *name, void *(*run)(void *), void *argument, int priority, int on)
{
    pthread_t thread;
    pthread_attr_t attributes;
    const struct sched_param param = { .sched_priority = priority };
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET(on, &cpus);
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, priority ? SCHED_FIFO : SCHED_OTHER);
    pthread_attr_setschedparam(&attributes, &param);
    pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
    errno = pthread_create(&thread, &attributes, run, argument);
    if (errno != 0)
        refused("a real-time thread");
    pthread_setname_np(thread, name);
    return thread;
}

/* A process of its own, which ends with this one. The libraries are not told of it, so it is no traced program. */
static pid_t fork_bare(void)
{
    const pid_t parent = getpid();
    const pid_t child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child < 0)
        refused("a process");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* The process may have ended before that. */
        if (getppid() != parent)
            _exit(0);
    }
    return child;
}

/* Actions of a thread that works for the victim, before its work and after it. */
struct work {
    void (*begin)(void);
    void (*end)(void);
};

static void *works(void *argument)
{
    const struct work *work = argument;
    for (;;) {
        sem_wait(&asked);
        began = now();
        if (work->begin)
            work->begin();
        spin(3 * MS);
        measured = now() - awaited_since();
        work->end();
    }
    return NULL;
}

/* A lock as one of its users takes it. */
struct lock {
    int (*take)(void *);
    int (*release)(void *);
    void *what;
};

static void *holds(void *argument)
{
    const struct lock *lock = argument;
    for (;;) {
        sem_wait(&asked);
        lock->take(lock->what);
        sem_post(&answered);
        measured = spin(3 * MS);
        lock->release(lock->what);
    }
    return NULL;
}

/* Returns the time until the victim has a lock that another thread holds. */
static long takes(const struct lock *lock)
{
    ask();
    sem_wait(&answered);
    const long begin = now();
    lock->take(lock->what);
    const long end = now();
    lock->release(lock->what);
    return end - begin;
}

/* Returns the longest time without the CPU while the thread works, or the first one of this length. */
static long longest_stop(long ns, long enough)
{
    const long begin = now();
    long before = begin, longest = 0;
    while (before - begin < ns && longest < enough) {
        const long after = now();
        if (after - before > longest)
            longest = after - before;
        before = after;
    }
    return longest;
}

#endif
