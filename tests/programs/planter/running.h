/* Kinds in which the victim has its CPU: own code, system calls, handlers, page faults. */
#include "common.h"
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/random.h>

static long own(void)
{
    return spin(3 * MS);
}

static pthread_spinlock_t word;

static int take_spin(void *lock)
{
    return pthread_spin_lock(lock);
}

static int release_spin(void *lock)
{
    return pthread_spin_unlock(lock);
}

static struct lock spin_lock = { take_spin, release_spin, (void *)&word };

static void make_spin_lock(void)
{
    pthread_spin_init(&word, PTHREAD_PROCESS_PRIVATE);
}

static long takes_spin_lock(void)
{
    return takes(&spin_lock);
}

/* Interrupts from another CPU, which makes all CPUs of this process pass a memory barrier while the victim works. */

static volatile int is_at_work;

static void register_barrier(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0)
        refused("a barrier for a process");
}

static void *sends_barriers(void *unused)
{
    for (;;) {
        sem_wait(&asked);
        while (is_at_work)
            syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    }
    return unused;
}

/* Time for which a loop was stopped, once that is enough, or the loop has worked for so long. */
static long stops(long enough, long work)
{
    long worked = 0, stood_still = 0, last = now();
    while (stood_still < enough && worked < work) {
        const long step = now() - last;
        last += step;
        if (step < MS / 2000)
            worked += step;
        else
            stood_still += step;
    }
    is_at_work = 0;
    return stood_still;
}

static long is_interrupted(void)
{
    is_at_work = 1;
    ask();
    return stops(2 * MS, 20 * MS);
}

/* System calls that take long. */

static long call(void)
{
    static char bytes[1 << 20];
    const long begin = now();
    if (getrandom(bytes, sizeof bytes, 0) < 0)
        refused("getrandom");
    return now() - begin;
}

enum { LARGE = 64 << 20, SMALL = 4 << 20, HUGE_PAGE = 2 << 20 };
static char *memory;

static char *fresh(size_t size, int flags)
{
    char *const mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (mapped == MAP_FAILED)
        refused("memory");
    madvise(mapped, size, MADV_NOHUGEPAGE);
    return mapped;
}

static void map_large(void)
{
    if (memory)
        return;
    memory = fresh(LARGE, 0);
    memset(memory, 1, LARGE);
}

static long unmaps(void)
{
    const long begin = now();
    munmap(memory, LARGE);
    const long end = now();
    memory = NULL;
    return end - begin;
}

static long forks(void)
{
    const long begin = now();
    if (fork_bare() == 0)
        _exit(0);
    return now() - begin;
}

static void reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    map_large();
}

static long locks_memory(void)
{
    char *const pages = fresh(4 * SMALL, 0);
    const long begin = now();
    if (mlock(pages, 4 * SMALL) != 0)
        refused("mlock");
    const long end = now();
    munmap(pages, 4 * SMALL);
    return end - begin;
}

/* Signal handlers. */

static volatile int handled;

static void handle(int number)
{
    (void)number;
    measured = spin(2 * MS);
    handled = 1;
}

static void *sends(void *unused)
{
    for (;;) {
        sem_wait(&asked);
        pthread_kill(victim, SIGUSR1);
    }
    return unused;
}

static void handle_signals(void)
{
    const struct sigaction action = { .sa_handler = handle };
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
}

static long is_handled(void)
{
    while (!handled)
        ;
    handled = 0;
    return measured;
}

static long is_signalled(void)
{
    ask();
    return is_handled();
}

static long is_alarmed(void)
{
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };
    const struct itimerspec soon = { .it_value = { .tv_nsec = MS / 10 } };
    timer_t timer;
    event._sigev_un._tid = gettid();
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
        refused("timer_create");
    timer_settime(timer, 0, &soon, NULL);
    const long length = is_handled();
    timer_delete(timer);
    return length;
}

/* Page faults that take the CPU. */

static long touch(char *pages, long size, long step)
{
    const long begin = now();
    for (long place = 0; place < size; place += step)
        pages[place]++;
    return now() - begin;
}

static long faults(void)
{
    char *const pages = fresh(SMALL, 0);
    const long length = touch(pages, SMALL, 4096);
    munmap(pages, SMALL);
    return length;
}

static char *shared_pages;
static pid_t sharer;

/* An idle process that shares the same pages from now on. */
static void share_pages(void)
{
    if (!shared_pages)
        shared_pages = fresh(SMALL, 0);
    if (sharer) {
        kill(sharer, SIGKILL);
        waitpid(sharer, NULL, 0);
    }
    memset(shared_pages, 1, SMALL);
    sharer = fork_bare();
    while (sharer == 0)
        pause();
}

static long copies_on_write(void)
{
    return touch(shared_pages, SMALL, 4096);
}

static void need_huge_pages(void)
{
    static char words[64];
    FILE *const setting = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (!setting || !fgets(words, sizeof words, setting) || strstr(words, "[never]"))
        refused("huge pages");
    fclose(setting);
}

static long faults_on_huge_pages(void)
{
    char *const pages = fresh(5 * HUGE_PAGE, 0);
    char *const aligned = pages + (HUGE_PAGE - (uintptr_t)pages % HUGE_PAGE) % HUGE_PAGE;
    madvise(aligned, 4 * HUGE_PAGE, MADV_HUGEPAGE);
    const long length = touch(aligned, 4 * HUGE_PAGE, HUGE_PAGE);
    munmap(pages, 5 * HUGE_PAGE);
    return length;
}
