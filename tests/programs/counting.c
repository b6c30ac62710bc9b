/* A thread with performance counters: counting NAMES [STEPS [SECONDS]]. Before each step, touches ten fresh pages more
 * than before the previous one, and records their number in the step's event and in a signal handler's. Then come its
 * child, another thread, and itself without counters. Prints the results of opening counters, and the number of open
 * descriptors each time. With SECONDS, hits 'counting:flood' for as long at the end, with counters and the number of
 * pages touched meanwhile, one for each 16 hits. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SORDINO_TRACEPOINT(counting, before, SORDINO_INFO, (u32, number))
SORDINO_TRACEPOINT(counting, step, SORDINO_INFO, (u32, number), (u32, touched))
SORDINO_TRACEPOINT(counting, handled, SORDINO_INFO, (u32, number))
SORDINO_TRACEPOINT(counting, child, SORDINO_INFO, (u32, opened))
SORDINO_TRACEPOINT(counting, thread, SORDINO_INFO, (u32, opened))
SORDINO_TRACEPOINT(counting, after, SORDINO_INFO, (u32, number))
SORDINO_TRACEPOINT(counting, flood, SORDINO_INFO, (u64, touched), (string, filler))

static const char *names;
static unsigned char *fresh;

static int opens(const char *what)
{
    char why[300];
    const int result = sordino_counters(names, why, sizeof why);
    printf("%s: %d %s\n", what, result, why);
    return result;
}

static void descriptors(const char *when)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    printf("descriptors %s: %d\n", when, count);
    fflush(stdout);
}

static unsigned touch(unsigned pages)
{
    for (unsigned page = 0; page < pages; page++, fresh += 4096)
        *(volatile unsigned char *)fresh = 1;
    return pages;
}

static void flood(time_t seconds)
{
    enum { PAGES = 200, HITS = 16 };
    /* Records of several sizes: the last that fits into a sub-buffer is an event, or its counters. */
    static const char FILLER[] = "0123456789012345678901234567890123456789";
    uint64_t touched = 0;
    unsigned char *const pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, PAGES * 4096, MADV_NOHUGEPAGE);
    for (const time_t until = time(NULL) + seconds; time(NULL) < until;) {
        fresh = pages;
        for (unsigned page = 0; page < PAGES; page++) {
            touched += touch(1);
            for (unsigned hit = 0; hit < HITS; hit++)
                sordino_tracepoint(counting, flood, touched, FILLER + (touched * 7 + hit * 5) % sizeof FILLER);
        }
        madvise(pages, PAGES * 4096, MADV_DONTNEED);
    }
}

static void on_signal(int number)
{
    sordino_tracepoint(counting, handled, (uint32_t)number);
}

static void *work(void *argument)
{
    sordino_tracepoint(counting, thread, 0);
    if (opens("thread") == 0)
        sordino_tracepoint(counting, thread, 1);
    descriptors("in the thread");
    return argument;
}

int main(int argc, char **argv)
{
    const unsigned steps = argc > 2 ? (unsigned)atoi(argv[2]) : 10, seconds = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    const size_t size = (size_t)4096 * 10 * steps * (steps + 1);
    pthread_t thread;
    names = argv[1];
    fresh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(fresh, size, MADV_NOHUGEPAGE);
    signal(SIGUSR1, on_signal);
    sordino_tracepoint(counting, before, 0);
    descriptors("before");
    const int result = opens("first");
    if (result != 0)
        return 0;
    opens("again");
    descriptors("counting");
    for (unsigned i = 0; i < steps; i++) {
        const unsigned touched = touch(10 * i);
        sordino_tracepoint(counting, step, i, touched);
        usleep(100);
    }
    raise(SIGUSR1);
    fflush(stdout);
    if (fork() == 0) {
        descriptors("in the child");
        sordino_tracepoint(counting, child, 0);
        opens("child");
        sordino_tracepoint(counting, child, 1);
        descriptors("in the counting child");
        exit(0);
    }
    wait(NULL);
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    descriptors("after the thread");
    flood(seconds);
    sordino_counters("", NULL, 0);
    sordino_tracepoint(counting, after, 0);
    descriptors("after");
    return 0;
}
