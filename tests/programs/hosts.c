/* Threads that each load and unload a plug-in of their own: hosts TIMES PLUGIN... If TIMES is 0, until SIGTERM. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>

SORDINO_TRACEPOINT(hosts, before, SORDINO_INFO, (u32, number))
SORDINO_TRACEPOINT(hosts, after, SORDINO_INFO, (u32, number))

static volatile sig_atomic_t stop;
static uint32_t times;

static void on_term(int signal)
{
    (void)signal;
    stop = 1;
}

static void *work(void *path)
{
    for (uint32_t number = 0; times == 0 ? !stop : number < times; number++) {
        void (*hit)(uint32_t);
        sordino_tracepoint(hosts, before, number);
        void *plugin = dlopen((const char *)path, RTLD_NOW);
        if (!plugin)
            abort();
        *(void **)&hit = dlsym(plugin, "plugin_hit");
        hit(number);
        dlclose(plugin);
        sordino_tracepoint(hosts, after, number);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[16];
    times = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    signal(SIGTERM, on_term);
    puts("ready");
    fflush(stdout);
    for (int i = 2; i < argc && i < 18; i++)
        pthread_create(&threads[i - 2], NULL, work, argv[i]);
    for (int i = 2; i < argc && i < 18; i++)
        pthread_join(threads[i - 2], NULL);
    return 0;
}
