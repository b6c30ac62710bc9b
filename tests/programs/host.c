/* Loads and unloads a plug-in: host PLUGIN TIMES [interrupted]. Prints the numbers of mappings and descriptors after
 * the tenth time and after the last. With 'interrupted', stops its parent, the recorder, during 200 signals, one each
 * millisecond. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

SORDINO_TRACEPOINT(host, loads, SORDINO_INFO, (u32, number))

static int mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    int lines = 0;
    for (int c; (c = getc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

static int descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void on_alarm(int signal)
{
    static int count;
    (void)signal;
    if (++count == 200)
        kill(getppid(), SIGCONT);
}

int main(int argc, char **argv)
{
    if (argc > 3) {
        const struct itimerval often = {{0, 1000}, {0, 1000}};
        signal(SIGALRM, on_alarm);
        kill(getppid(), SIGSTOP);
        setitimer(ITIMER_REAL, &often, NULL);
    }
    const uint32_t times = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
    for (uint32_t number = 0; number < times; number++) {
        void (*hit)(uint32_t);
        sordino_tracepoint(host, loads, number);
        void *plugin = dlopen(argv[1], RTLD_NOW);
        if (!plugin) {
            puts(dlerror());
            return 3;
        }
        *(void **)&hit = dlsym(plugin, "plugin_hit");
        hit(number);
        dlclose(plugin);
        if (number == 10 || number == times - 1)
            printf("%d %d\n", mappings(), descriptors());
    }
    return 0;
}
