/* Tracepoints under every load at once: storms SEED MILLISECONDS FILE PLUGIN LOAD...
 *
 * Every hit belongs to a lane: a thread, or the handler of a signal in a thread. The hits of a lane are numbered from
 * 0, and a record's contents follow from lane and number, so it verifies itself. FILE is shared memory that outlives
 * the program, with the number of begun and completed hits of each lane.
 *
 * LOADs: signals, migration, fifo, fork, vfork, exec, plugin; calm: few hits; large: hits that fill a sub-buffer each.
 * FILE begins with 1024 pairs of words (begun, done), one for each lane; then come the program's pid, a word that stops
 * it, and one that lets it begin. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verified.h"

SORDINO_TRACEPOINT(storms, words, SORDINO_INFO, (u64, what), (u64, check))
SORDINO_TRACEPOINT(storms, bytes, SORDINO_INFO, (u64, what), (u64, check), (sequence, u8, fill))
/* Has the same bytes as `bytes` with an empty fill. */
SORDINO_TRACEPOINT(storms, values, SORDINO_INFO, (u64, what), (u64, check), (u16, length))

enum { WORKERS = 4, HANDLERS = 2, LANES = 1024, CHILD = 512, LARGEST = 20000 };

struct shared {
    struct lane {
        volatile uint64_t begun, done;
    } lanes[LANES];
    volatile uint64_t pid, stop, go;
};

static struct shared *shared;
static uint64_t seed;
static int calm;
static const char *program, *plugin;
static pthread_t workers[WORKERS];
static sigset_t signals;
static __thread uint32_t me;

static void hit(uint32_t lane)
{
    const uint64_t number = shared->lanes[lane].begun++;
    const uint64_t what = (uint64_t)lane << 40 | number, check = mixed(what ^ seed);
    const uint32_t length = length_of(check);
    if (length == NO_FILL) {
        sordino_tracepoint(storms, words, what, check);
    } else if (length == 0) {
        sordino_tracepoint(storms, values, what, check, 0);
    } else if (length <= 300) {
        uint8_t fill[304];
        fill_with(fill, length, check);
        sordino_tracepoint(storms, bytes, what, check, fill, length);
    } else {
        uint8_t fill[LARGEST];
        fill_with(fill, length, check);
        sordino_tracepoint(storms, bytes, what, check, fill, length);
    }
    shared->lanes[lane].done = number + 1;
}

/* Each signal masks itself, and the other one interrupts it. */
static void on_signal(int signal)
{
    const int error = errno;
    hit(WORKERS + HANDLERS * me + (signal == SIGUSR1));
    errno = error;
}

static void spin(uint64_t steps)
{
    while (steps--)
        __asm__ volatile("");
}

static void *work(void *argument)
{
    uint64_t random = mixed(seed + (uintptr_t)argument);
    me = (uint32_t)(uintptr_t)argument;
    /* Before the thread has its lanes, a signal's hit would belong to another thread's lane. */
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    while (!shared->go)
        usleep(200);
    while (!shared->stop) {
        random = mixed(random);
        for (uint64_t burst = random & 63; burst; burst--) {
            hit(me);
            spin(random >> 8 & (calm ? 0 : 4095));
        }
        if (calm || (random >> 32) % 16 == 0)
            usleep((useconds_t)(random >> 40) % (calm ? 5000 : 500));
    }
    return NULL;
}

static void pin(pid_t tid, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    sched_setaffinity(tid, sizeof set, &set);
}

static void *migrate(void *argument)
{
    uint64_t random = mixed(seed ^ 1);
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    (void)argument;
    while (!shared->stop) {
        cpu_set_t set;
        random = mixed(random);
        CPU_ZERO(&set);
        CPU_SET((size_t)(random >> 8) % (size_t)cpus, &set);
        pthread_setaffinity_np(workers[random % WORKERS], sizeof set, &set);
        usleep((useconds_t)(random >> 40) % 200);
    }
    return NULL;
}

/* Preempts the thread that runs there, and hits in its place. */
static void *preempt(void *argument)
{
    const struct sched_param priority = {.sched_priority = 5};
    const int cpu = (int)(uintptr_t)argument;
    uint64_t random = mixed(seed ^ (uint64_t)(2 + cpu));
    pin(0, cpu);
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
    while (!shared->stop) {
        random = mixed(random);
        for (uint64_t burst = random & 7; burst; burst--)
            hit(64 + (uint32_t)cpu);
        usleep((useconds_t)(random >> 40) % 300);
    }
    return NULL;
}

static void *aim(void *argument)
{
    uint64_t random = mixed(seed ^ 3);
    (void)argument;
    while (!shared->stop) {
        random = mixed(random);
        pthread_kill(workers[random % WORKERS], SIGUSR1);
        spin(random >> 8 & 16383);
    }
    return NULL;
}

static void wait_for(pid_t child)
{
    int status;
    if (child > 0 && (waitpid(child, &status, 0) != child || status != 0))
        abort();
}

static void *fork_often(void *argument)
{
    (void)argument;
    for (uint32_t lane = CHILD; !shared->stop && lane < LANES; lane++) {
        const pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 50; i++)
                hit(lane);
            _exit(0);
        }
        wait_for(child);
        usleep(20000);
    }
    return NULL;
}

/* The parent sleeps meanwhile; its children hit in one lane, one after the other. */
static void *vfork_often(void *argument)
{
    (void)argument;
    while (!shared->stop) {
        const pid_t child = vfork();
        if (child == 0) {
            for (int i = 0; i < 20; i++)
                hit(80);
            _exit(0);
        }
        wait_for(child);
        hit(81);
        usleep(500);
    }
    return NULL;
}

static void *exec_often(void *argument)
{
    (void)argument;
    while (!shared->stop) {
        const pid_t child = vfork();
        if (child == 0) {
            hit(82);
            execl(program, program, "executed", (char *)NULL);
            _exit(127);
        }
        wait_for(child);
        usleep(30000);
    }
    return NULL;
}

static void *load_often(void *argument)
{
    (void)argument;
    while (!shared->stop) {
        void *library = dlopen(plugin, RTLD_NOW);
        void (*verified_hit)(uint64_t, uint64_t);
        if (!library)
            abort();
        *(void **)&verified_hit = dlsym(library, "verified_hit");
        for (int i = 0; i < 20; i++) {
            const uint64_t number = shared->lanes[83].begun++, what = 83ull << 40 | number;
            verified_hit(what, mixed(what ^ seed));
            shared->lanes[83].done = number + 1;
        }
        dlclose(library);
        usleep(300);
    }
    return NULL;
}

static void *enlarge(void *argument)
{
    uint8_t fill[8300];
    (void)argument;
    while (!shared->stop) {
        const uint64_t number = shared->lanes[84].begun++, what = 84ull << 40 | number, check = mixed(what ^ seed);
        fill_with(fill, sizeof fill, check);
        sordino_tracepoint(storms, bytes, what, check, fill, sizeof fill);
        shared->lanes[84].done = number + 1;
    }
    return NULL;
}

static void send_timers(void)
{
    const struct itimerspec often = {{0, 50000}, {0, 50000}};
    struct sigevent event;
    timer_t timer;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR2;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL))
        abort();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void *(*run)(void *);
    } loads[] = {{"signals", aim}, {"migration", migrate}, {"fork", fork_often}, {"vfork", vfork_often},
        {"exec", exec_often}, {"plugin", load_often}, {"large", enlarge}};
    pthread_t others[32];
    int count = 0;
    if (argc == 2)
        return 0;
    if (argc < 5)
        return 3;
    program = argv[0];
    seed = strtoull(argv[1], NULL, 10);
    plugin = argv[4];
    const int file = open(argv[3], O_RDWR);
    shared = (struct shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED)
        return 3;
    for (int i = 5; i < argc; i++)
        calm |= strcmp(argv[i], "calm") == 0;
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    for (uintptr_t i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, (void *)i);
    shared->pid = (uint64_t)getpid();
    while (!shared->go)
        usleep(200);
    for (int i = 5; i < argc; i++) {
        for (size_t k = 0; k < sizeof loads / sizeof *loads; k++)
            if (strcmp(argv[i], loads[k].name) == 0)
                pthread_create(&others[count++], NULL, loads[k].run, NULL);
        if (strcmp(argv[i], "signals") == 0)
            send_timers();
        if (strcmp(argv[i], "fifo") == 0)
            for (uintptr_t cpu = 0; cpu < 2; cpu++)
                pthread_create(&others[count++], NULL, preempt, (void *)cpu);
    }
    for (uint64_t left = strtoull(argv[2], NULL, 10); left && !shared->stop; left--)
        usleep(1000);
    shared->stop = 1;
    while (count)
        pthread_join(others[--count], NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    return 0;
}
