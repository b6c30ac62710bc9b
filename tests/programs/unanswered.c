/* Hits a tracepoint TIMES times, prints "hit", and repeats that at each SIGUSR1, until SIGTERM: unanswered TIMES [once]
 * */
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>

SORDINO_TRACEPOINT(unanswered, hit, SORDINO_INFO, (u32, number))

int main(int argc, char **argv)
{
    const int times = argc > 1 ? atoi(argv[1]) : 1;
    uint32_t number = 0;
    int signal = SIGTERM;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    do {
        for (int i = 0; i < times; i++)
            sordino_tracepoint(unanswered, hit, number++);
        puts("hit");
        fflush(stdout);
    } while (argc < 3 && sigwait(&signals, &signal) == 0 && signal == SIGUSR1);
    return 0;
}
