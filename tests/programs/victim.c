/* Publishes numbered events in two threads once the test lets it begin, and counts the published ones in shared memory
 * that outlives it. Waits to be killed. */
#include <fcntl.h>
#include <pthread.h>
#include <sordino/tracepoint.h>
#include <sys/mman.h>
#include <unistd.h>

SORDINO_TRACEPOINT(victim, step, SORDINO_INFO, (u32, thread), (u64, number), (string, text))

/* Number of each thread's events, which fit into any ring of the test, however late the program is killed. */
enum { THREADS = 2, MOST = 100000 };

struct shared {
    volatile uint64_t pid;
    volatile uint64_t published[THREADS];
    volatile uint64_t go;
};

static struct shared *shared;

static void *work(void *argument)
{
    const uint32_t thread = (uint32_t)(uintptr_t)argument;
    while (!shared->go)
        usleep(200);
    for (uint64_t number = 0; number < MOST; number++) {
        sordino_tracepoint(victim, step, thread, number, "0123456789abcdef" + number % 16);
        __atomic_store_n(&shared->published[thread], number + 1, __ATOMIC_RELEASE);
        for (volatile int i = 0; i < 100; i++)
            ;
    }
    for (;;)
        pause();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    const int file = argc == 2 ? open(argv[1], O_RDWR) : -1;
    if (file < 0)
        return 3;
    shared = (struct shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pthread_create(&thread, NULL, work, (void *)1);
    shared->pid = (uint64_t)getpid();
    work(NULL);
}
