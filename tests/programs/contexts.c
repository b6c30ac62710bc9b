/* Threads with annotations: contexts THREADS [ANNOTATIONS [PAUSE]]. Each worker hits a tracepoint every PAUSE us (2000).
 * Each SIGUSR1 begins another phase, whose number the workers set as an annotation. ANNOTATIONS more threads set one
 * annotation each and end at once. SIGTERM ends the program. */
#include <pthread.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

SORDINO_TRACEPOINT(contexts, step, SORDINO_INFO, (u32, worker), (u32, phase))

static volatile sig_atomic_t stop, phase;
static unsigned pause_us = 2000;

static void on_signal(int signal)
{
    if (signal == SIGTERM)
        stop = 1;
    else
        phase++;
}

static void *work(void *argument)
{
    const unsigned worker = (unsigned)(uintptr_t)argument;
    char name[16];
    snprintf(name, sizeof name, "worker-%u", worker);
    prctl(PR_SET_NAME, name);
    sordino_context("role", "worker %u", worker);
    unsigned set_phase = 0;
    sordino_context("phase", "%u", set_phase);
    while (!stop) {
        if (set_phase != (unsigned)phase) {
            set_phase = (unsigned)phase;
            sordino_context("phase", "%u", set_phase);
            if (set_phase == 2) {
                sordino_context("role", "%s", "");
                prctl(PR_SET_NAME, "named \xff");
            }
        }
        sordino_tracepoint(contexts, step, worker, set_phase);
        usleep(pause_us);
    }
    return NULL;
}

static void *say(void *argument)
{
    sordino_context("number", "%u", (unsigned)(uintptr_t)argument);
    return NULL;
}

int main(int argc, char **argv)
{
    const unsigned threads = (unsigned)atoi(argv[1]), values = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    pthread_t thread[8];
    if (argc > 3)
        pause_us = (unsigned)atoi(argv[3]);
    signal(SIGTERM, on_signal);
    signal(SIGUSR1, on_signal);
    for (unsigned i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i);
    for (unsigned i = 0; i < values; i++) {
        pthread_t teller;
        pthread_create(&teller, NULL, say, (void *)(uintptr_t)i);
        pthread_join(teller, NULL);
    }
    puts("ready");
    fflush(stdout);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
