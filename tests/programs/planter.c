/* Plants one kind of disturbance into some rounds of a thread, and says how long each one was by its own clock.
 *
 *     planter KIND CPU
 *
 * The thread 'victim' runs on CPU; each of its rounds lies between plant:begin and plant:end, and takes some 1.5 ms if nothing is planted.
 * A line for each planted round: its number and the length of the disturbance in ns. The exit status is 3 where the machine refuses the
 * kind; a line says why. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

SORDINO_TRACEPOINT(plant, begin, SORDINO_INFO, (u32, round))
SORDINO_TRACEPOINT(plant, end, SORDINO_INFO, (u32, round))

enum { ROUNDS = 8, VICTIM = 50, ABOVE = 60, BELOW = 10, STAGES = 3 };

static const long MS = 1000000;
static int cpu, other_cpu;
static sem_t asked, answered;
static pthread_mutex_t plain_lock = PTHREAD_MUTEX_INITIALIZER, lending_lock;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static int turn, ends[2], pipes[STAGES + 1][2];
static volatile int handled;
static pthread_t victim, disturber;
static char *mapped;
static int file;
/* What the disturbing thread measured. */
static volatile long measured;

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

/* The disturbing threads: each waits to be asked, and disturbs. */

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

static void *holds(void *lock)
{
    for (;;) {
        sem_wait(&asked);
        pthread_mutex_lock(lock);
        sem_post(&answered);
        measured = spin(3 * MS);
        pthread_mutex_unlock(lock);
    }
    return NULL;
}

static void *signals_condition(void *unused)
{
    for (;;) {
        sem_wait(&asked);
        measured = spin(3 * MS);
        pthread_mutex_lock(&plain_lock);
        turn = 1;
        pthread_mutex_unlock(&plain_lock);
        pthread_cond_signal(&condition);
    }
    return unused;
}

static void *meets(void *unused)
{
    for (;;) {
        sem_wait(&asked);
        measured = spin(3 * MS);
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

static void *posts(void *unused)
{
    for (;;) {
        sem_wait(&asked);
        measured = spin(3 * MS);
        sem_post(&answered);
    }
    return unused;
}

static void *writes(void *unused)
{
    const uint64_t one = 1;
    for (;;) {
        sem_wait(&asked);
        measured = spin(3 * MS);
        if (write(ends[1], &one, sizeof one) < 0)
            exit(2);
    }
    return unused;
}

static void *passes_on(void *number)
{
    const long stage = (long)number;
    char byte;
    for (;;) {
        if (read(pipes[stage][0], &byte, 1) != 1)
            exit(2);
        if (stage == 1)
            measured = spin(3 * MS);
        else
            spin(MS / 10);
        if (write(pipes[stage + 1][1], &byte, 1) != 1)
            exit(2);
    }
    return NULL;
}

static void *sends(void *unused)
{
    for (;;) {
        sem_wait(&asked);
        pthread_kill(victim, SIGUSR1);
    }
    return unused;
}

static void *burns(void *unused)
{
    for (;;) {
        sem_wait(&asked);
        spin(2000 * MS);
    }
    return unused;
}

static void handle(int number)
{
    (void)number;
    measured = spin(2 * MS);
    handled = 1;
}

/* The kinds: what the victim does itself. Each returns the length of the disturbance. */

static void ask(void)
{
    sem_post(&asked);
}

static long own(void)
{
    return spin(3 * MS);
}

static long call(void)
{
    static char bytes[1 << 20];
    const long begin = now();
    if (getrandom(bytes, sizeof bytes, 0) < 0)
        refused("getrandom");
    return now() - begin;
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

static long takes(pthread_mutex_t *lock)
{
    ask();
    sem_wait(&answered);
    const long begin = now();
    pthread_mutex_lock(lock);
    const long end = now();
    pthread_mutex_unlock(lock);
    return end - begin;
}

static long lock(void)
{
    return takes(&plain_lock);
}

static long lending(void)
{
    return takes(&lending_lock);
}

static long waits_for_condition(void)
{
    ask();
    pthread_mutex_lock(&plain_lock);
    while (!turn)
        pthread_cond_wait(&condition, &plain_lock);
    turn = 0;
    pthread_mutex_unlock(&plain_lock);
    return measured;
}

static long waits_at_barrier(void)
{
    ask();
    pthread_barrier_wait(&barrier);
    return measured;
}

static long waits_for_semaphore(void)
{
    ask();
    sem_wait(&answered);
    return measured;
}

static long reads(void)
{
    uint64_t number;
    ask();
    if (read(ends[0], &number, sizeof number) < 0)
        exit(2);
    return measured;
}

static long polls(void)
{
    struct pollfd end = { .fd = ends[0], .events = POLLIN };
    uint64_t number;
    ask();
    poll(&end, 1, -1);
    if (read(ends[0], &number, sizeof number) < 0)
        exit(2);
    return measured;
}

static long chain(void)
{
    char byte = 0;
    if (write(pipes[0][1], &byte, 1) != 1 || read(pipes[STAGES][0], &byte, 1) != 1)
        exit(2);
    return measured;
}

static long is_signalled(void)
{
    handled = 0;
    ask();
    while (!handled)
        ;
    return measured;
}

static long faults(void)
{
    enum { SIZE = 4 << 20 };
    const long begin = now();
    char *fresh = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(fresh, SIZE, MADV_NOHUGEPAGE);
    for (long place = 0; place < SIZE; place += 4096)
        fresh[place] = 1;
    const long end = now();
    munmap(fresh, SIZE);
    return end - begin;
}

enum { FILE_SIZE = 16 << 20, STEP = 1 << 20 };

static void write_file(void)
{
    static const char bytes[256 << 10];
    file = open("planter.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || posix_fallocate(file, 0, FILE_SIZE) != 0)
        refused("planter.data");
    for (long place = 0; place < FILE_SIZE; place += STEP)
        if (pwrite(file, bytes, sizeof bytes, place) != sizeof bytes)
            refused("planter.data");
}

static void map_file(void)
{
    write_file();
    fsync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    mapped = mmap(NULL, FILE_SIZE, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        refused("planter.data");
    madvise(mapped, FILE_SIZE, MADV_RANDOM);
}

static long reads_pages(void)
{
    volatile char byte;
    const long begin = now();
    for (long place = 0; place < FILE_SIZE; place += STEP)
        byte = mapped[place];
    const long end = now();
    (void)byte;
    return end - begin;
}

static long oversleeps(void)
{
    long late = 0;
    prctl(PR_SET_TIMERSLACK, 8 * MS);
    /* Another timer's interrupt may come at once. */
    for (int tries = 0; tries < 20 && late < MS; tries++) {
        const long begin = now();
        rest(MS / 20);
        late = now() - begin - MS / 20;
    }
    prctl(PR_SET_TIMERSLACK, 0);
    return late;
}

static long syncs(void)
{
    const long begin = now();
    fsync(file);
    return now() - begin;
}

static long sleeps(void)
{
    const long begin = now();
    rest(4 * MS);
    return now() - begin;
}

static long yields(void)
{
    ask();
    sched_yield();
    sem_wait(&answered);
    return measured;
}

static long moves(void)
{
    cpu_set_t cpus;
    ask();
    /* The hog of the other CPU is running. */
    sem_wait(&answered);
    const long begin = now();
    CPU_ZERO(&cpus);
    CPU_SET(other_cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    const long end = now();
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    return end - begin;
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

/* The longest time without the CPU, while it has something to do for this long, or until one was so long. */
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

/* A process of its own, as a stop holds for all threads of one. It ends with this one, whose end of the pipe closes. */
static void start_stopper(void)
{
    const pid_t pid = getpid();
    char byte;
    if (fork() != 0)
        return;
    close(pipes[0][1]);
    while (read(pipes[0][0], &byte, 1) == 1) {
        kill(pid, SIGSTOP);
        rest(30 * MS);
        kill(pid, SIGCONT);
    }
    _exit(0);
}

static long stopped(void)
{
    if (write(pipes[0][1], "", 1) != 1)
        exit(2);
    return longest_stop(1000 * MS, 10 * MS);
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

static void becomes_deadline(void)
{
    /* struct sched_attr of <linux/sched/types.h>, which can't be included beside <sched.h>. */
    const struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = { .size = 48, .policy = 6 /* SCHED_DEADLINE */, .runtime = 2 * MS, .deadline = 40 * MS, .period = 40 * MS };
    cpu_set_t all;
    CPU_ZERO(&all);
    for (long each = 0; each < sysconf(_SC_NPROCESSORS_CONF); each++)
        CPU_SET(each, &all);
    if (sched_setaffinity(0, sizeof all, &all) != 0 || syscall(SYS_sched_setattr, 0, &attributes, 0) != 0)
        refused("SCHED_DEADLINE");
}

/* What the victim does, after what, and who disturbs it, on which CPU, with which priority. */
static const struct kind {
    const char *name;
    long (*plant)(void);
    void *(*disturb)(void *);
    const char *disturber;
    void *argument;
    int priority;
    int is_elsewhere;
    void (*prepare)(void);
} kinds[] = {
    { "own", own, NULL, NULL, NULL, 0, 0, NULL },
    { "call", call, NULL, NULL, NULL, 0, 0, NULL },
    { "preempted", preempted, hogs, "hog", NULL, ABOVE, 0, NULL },
    { "woken_behind", woken_behind, hogs, "hog", (void *)500000, ABOVE, 0, NULL },
    { "lock", lock, holds, "holder", &plain_lock, BELOW, 1, NULL },
    { "lending_lock", lending, holds, "holder", &lending_lock, BELOW, 0, NULL },
    { "condition", waits_for_condition, signals_condition, "worker", NULL, BELOW, 1, NULL },
    { "barrier", waits_at_barrier, meets, "worker", NULL, BELOW, 1, NULL },
    { "semaphore", waits_for_semaphore, posts, "worker", NULL, BELOW, 1, NULL },
    { "pipe", reads, writes, "worker", NULL, BELOW, 1, NULL },
    { "socket", reads, writes, "worker", NULL, BELOW, 1, NULL },
    { "eventfd", reads, writes, "worker", NULL, BELOW, 1, NULL },
    { "poll", polls, writes, "worker", NULL, BELOW, 1, NULL },
    { "chain", chain, NULL, NULL, NULL, 0, 0, NULL },
    { "signal", is_signalled, sends, "sender", NULL, BELOW, 1, NULL },
    { "stopped", stopped, NULL, NULL, NULL, 0, 0, NULL },
    { "faults", faults, NULL, NULL, NULL, 0, 0, NULL },
    { "page_reads", reads_pages, NULL, NULL, NULL, 0, 0, map_file },
    { "sleep", sleeps, NULL, NULL, NULL, 0, 0, NULL },
    { "slack", oversleeps, NULL, NULL, NULL, 0, 0, NULL },
    { "sync", syncs, NULL, NULL, NULL, 0, 0, write_file },
    { "yield", yields, hogs, "peer", NULL, VICTIM, 0, NULL },
    { "moved", moves, hogs_elsewhere, "hog", NULL, ABOVE, 1, NULL },
    { "fair_server", beside_fair, burns, "fair", NULL, 0, 0, NULL },
    { "deadline", uses_up, NULL, NULL, NULL, 0, 0, NULL },
    { "quota", uses_up, NULL, NULL, NULL, 0, 0, NULL },
};

static void *rounds(void *argument)
{
    const struct kind *kind = argument;
    const int is_starving = kind->plant == beside_fair;
    /* What limits allow is there again after that. */
    const long pause = kind->plant == uses_up ? 100 * MS : 2 * MS;
    victim = pthread_self();
    if (strcmp(kind->name, "deadline") == 0)
        becomes_deadline();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        long planted = 0;
        const int is_planted = round == 3 || round == 5 || round == 7;
        if (kind->prepare)
            kind->prepare();
        rest(pause);
        if (is_planted && is_starving) {
            ask();
            spin(940 * MS);
        }
        sordino_tracepoint(plant, begin, round);
        spin(MS / 2);
        if (!is_starving)
            rest(MS);
        if (is_planted)
            planted = kind->plant();
        sordino_tracepoint(plant, end, round);
        if (is_planted)
            printf("%u %ld\n", round, planted);
        if (mapped)
            munmap(mapped, FILE_SIZE);
        if (file)
            close(file);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const struct kind *kind = kinds, *end = kinds + sizeof kinds / sizeof *kinds;
    pthread_mutexattr_t attributes;
    const struct sigaction action = { .sa_handler = handle };
    cpu_set_t cpus;

    if (argc != 3)
        return 2;
    while (kind < end && strcmp(kind->name, argv[1]) != 0)
        kind++;
    if (kind == end)
        return 2;
    cpu = atoi(argv[2]);
    other_cpu = cpu == 0 ? 1 : 0;
    /* Signals to the process go through this thread, and the victim would starve it. */
    CPU_ZERO(&cpus);
    CPU_SET(other_cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&lending_lock, &attributes);
    pthread_barrier_init(&barrier, NULL, 2);
    sigaction(SIGUSR1, &action, NULL);
    if (strcmp(kind->name, "socket") == 0)
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    else if (strcmp(kind->name, "eventfd") == 0)
        ends[0] = ends[1] = eventfd(0, 0);
    else if (pipe(ends) != 0)
        return 2;
    if (strcmp(kind->name, "stopped") == 0) {
        if (pipe(pipes[0]) != 0)
            return 2;
        start_stopper();
    }
    if (strcmp(kind->name, "chain") == 0) {
        static const char *names[STAGES] = { "first", "second", "third" };
        for (long stage = 0; stage <= STAGES; stage++)
            if (pipe(pipes[stage]) != 0)
                return 2;
        for (long stage = 0; stage < STAGES; stage++)
            start(names[stage], passes_on, (void *)stage, BELOW, other_cpu);
    }
    if (kind->disturb)
        disturber = start(kind->disturber, kind->disturb, kind->argument, kind->priority,
              kind->is_elsewhere ? other_cpu : cpu);
    /* Quotas are about ordinary threads, and they alone have timer slack. */
    const int is_ordinary = strcmp(kind->name, "quota") == 0 || strcmp(kind->name, "slack") == 0;
    pthread_join(start("victim", rounds, (void *)kind, is_ordinary ? 0 : VICTIM, cpu), NULL);
    unlink("planter.data");
    return 0;
}
