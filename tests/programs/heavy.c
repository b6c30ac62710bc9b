/* Threads that write large records which verify themselves, until SIGTERM: heavy THREADS BYTES PAUSE. */
#include <pthread.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <unistd.h>

SORDINO_TRACEPOINT(heavy, step, SORDINO_INFO, (u32, thread), (u64, number), (string, text))

static volatile sig_atomic_t stop;
static size_t bytes;
static int pause_between;

static void on_term(int signal)
{
    (void)signal;
    stop = 1;
}

static void *work(void *argument)
{
    const uint32_t thread = (uint32_t)(uintptr_t)argument;
    char *const text = (char *)malloc(bytes + 1);
    text[bytes] = 0;
    for (uint64_t number = 0; !stop; number++) {
        memset(text, (int)('a' + number % 26), bytes);
        sordino_tracepoint(heavy, step, thread, number, text);
        for (volatile int i = 0; i < pause_between; i++)
            ;
    }
    free(text);
    return NULL;
}

int main(int argc, char **argv)
{
    const unsigned long threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 2;
    pthread_t thread[64];
    bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    pause_between = argc > 3 ? atoi(argv[3]) : 1000;
    signal(SIGTERM, on_term);
    for (unsigned long i = 0; i < threads && i < 64; i++)
        pthread_create(&thread[i], NULL, work, (void *)i);
    puts("ready");
    fflush(stdout);
    for (unsigned long i = 0; i < threads && i < 64; i++)
        pthread_join(thread[i], NULL);
    printf("done %d\n", sordino_enabled(heavy, step));
    return 0;
}
