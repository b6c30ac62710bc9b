/* Hits tracepoints at SIGUSR2: hits TIMES [close|vfork]
 * close: after closing the library's descriptors. vfork: in a child of vfork. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

SORDINO_TRACEPOINT(hits, pair, SORDINO_INFO, (u64, number), (u64, rest))
SORDINO_TRACEPOINT(hits, text, SORDINO_WARNING, (string, text), (u32, number))

static void hit(uint64_t times)
{
    for (uint64_t number = 0; number < times; number++) {
        sordino_tracepoint(hits, pair, number, number % 10);
        sordino_tracepoint(hits, text, number % 2 ? "odd" : "even", (uint32_t)number);
    }
}

int main(int argc, char **argv)
{
    const uint64_t times = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    const char *how = argc > 2 ? argv[2] : "";
    sigset_t begin;
    int number;

    sigemptyset(&begin);
    sigaddset(&begin, SIGUSR2);
    sigprocmask(SIG_BLOCK, &begin, NULL);
    puts("ready");
    fflush(stdout);
    sigwait(&begin, &number);
    if (strcmp(how, "close") == 0)
        for (int file = 3; file < 1024; file++)
            close(file);
    if (strcmp(how, "vfork") == 0) {
        const pid_t child = vfork();
        if (child == 0) {
            hit(times);
            _exit(0);
        }
        waitpid(child, &number, 0);
    } else {
        hit(times);
    }
    return 0;
}
