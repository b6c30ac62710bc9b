/* Hits tracepoints on small stacks: in a thread with the smallest possible one, and in a signal handler on the smallest
 * alternate stack. The page below each is inaccessible: depth EVENTS. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

SORDINO_TRACEPOINT(depth, thread, SORDINO_INFO, (u64, number), (string, text))
SORDINO_TRACEPOINT(depth, handler, SORDINO_INFO, (u64, number), (string, text))

static const char text[] = "as long a text as is staged without a larger stack frame, which is what most of them are";

static void *work(void *events)
{
    for (uint64_t number = 0; number < (uintptr_t)events; number++)
        sordino_tracepoint(depth, thread, number, text);
    return NULL;
}

static void on_signal(int signal)
{
    static uint64_t number;
    (void)signal;
    sordino_tracepoint(depth, handler, number++, text);
}

/* Memory of at least that size for a stack, above an inaccessible page. */
static char *guarded(size_t size)
{
    char *const memory = (char *)mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory, 4096, PROT_NONE);
    return memory + 4096;
}

int main(int argc, char **argv)
{
    const uintptr_t events = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    const size_t smallest = (size_t)sysconf(_SC_MINSIGSTKSZ), handlers = (smallest + 2048 + 4095) & ~(size_t)4095;
    const stack_t stack = {guarded(handlers), 0, handlers};
    struct sigaction action;
    pthread_attr_t attributes;
    pthread_t thread;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
        return 3;
    for (uintptr_t i = 0; i < events; i++)
        raise(SIGUSR1);
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)) != 0)
        return 4;
    pthread_create(&thread, &attributes, work, (void *)events);
    pthread_join(thread, NULL);
    return 0;
}
