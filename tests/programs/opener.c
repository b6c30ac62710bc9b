/* Loads a plug-in and hits its tracepoint three times at each SIGUSR1, until SIGTERM: opener PLUGIN */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>

SORDINO_TRACEPOINT(opener, ready, SORDINO_INFO)

static void use(const char *path)
{
    void (*hit)(uint32_t);
    void *plugin = dlopen(path, RTLD_NOW);
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&hit = dlsym(plugin, "plugin_hit");
    for (uint32_t i = 0; i < 3; i++)
        hit(i);
}

int main(int argc, char **argv)
{
    int signal;
    sigset_t signals;
    if (argc != 2)
        return 2;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    sordino_tracepoint(opener, ready);
    puts("ready");
    fflush(stdout);
    while (sigwait(&signals, &signal) == 0 && signal == SIGUSR1) {
        use(argv[1]);
        puts("hit");
        fflush(stdout);
    }
    return 0;
}
