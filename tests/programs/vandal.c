/* Fills its own area with random data while it is recorded and hits a tracepoint: vandal PART SEED. PART is control
 * (headers and catalogue), rings (added by the recorder), or both. */
#include <pthread.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

SORDINO_TRACEPOINT(vandal, step, SORDINO_INFO, (u64, number), (string, text))

static uint64_t state;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void *hits(void *unused)
{
    for (uint64_t number = 0;; number++) {
        sordino_tracepoint(vandal, step, number, "precious");
        for (volatile int pause = 0; pause < 2000; pause++)
            ;
    }
    return unused;
}

/* Size of the area's file. */
static off_t size(void)
{
    char path[64], name[64];
    struct stat status;
    for (int file = 0; file < 64; file++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        const ssize_t length = readlink(path, name, sizeof name - 1);
        name[length < 0 ? 0 : length] = 0;
        if (!strcmp(name, "/memfd:sordino (deleted)") && fstat(file, &status) == 0)
            return status.st_size;
    }
    return 0;
}

/* Ends the program when its own random data makes it crash. */
static void on_fault(int signal)
{
    (void)signal;
    _exit(0);
}

static void scribble(uint64_t *from, uint64_t *to, long words)
{
    for (long i = 0; i < words; i++)
        from[next_random() % (uint64_t)(to - from)] = next_random() % 3 ? next_random() : next_random() % 4096;
}

int main(int argc, char **argv)
{
    const char *part = argc > 2 ? argv[1] : "both";
    unsigned long long start = 0, end = 0, control;
    char line[512];
    FILE *maps;
    pthread_t thread;
    const struct timespec while_recorded = { 0, 100000000 };

    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    signal(SIGFPE, on_fault);
    while (!sordino_enabled(vandal, step))
        ;
    pthread_create(&thread, NULL, hits, NULL);
    nanosleep(&while_recorded, NULL);
    maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "/memfd:sordino (deleted)") && sscanf(line, "%llx-%llx", &start, &end) == 2)
            break;
    if (!start || !size())
        return 3;
    end = start + (unsigned long long)size();
    /* The library keeps unused parts inaccessible. */
    mprotect((void *)(uintptr_t)start, (size_t)(end - start), PROT_READ | PROT_WRITE);
    /* The header's ninth word is the size of the control part. */
    control = ((uint64_t *)(uintptr_t)start)[8];
    if (strcmp(part, "rings"))
        scribble((uint64_t *)(uintptr_t)start, (uint64_t *)(uintptr_t)(start + control), (long)(control / 24));
    if (strcmp(part, "control"))
        scribble((uint64_t *)(uintptr_t)(start + control), (uint64_t *)(uintptr_t)end, 20000);
    nanosleep(&while_recorded, NULL);
    _exit(0);
}
