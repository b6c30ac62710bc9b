/* Forks children that hit EVENTS tracepoints each: brood CHILDREN EVENTS [together]. They end at once, and at most 32 are
 * alive; with together, none ends before all have hit. Prints the number of children. */
#include <sordino/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

SORDINO_TRACEPOINT(brood, hit, SORDINO_INFO, (u32, child), (u32, number))

enum { ALIVE = 32 };

static void live(uint32_t child, uint32_t events, const int *done, const int *end)
{
    char byte = 0;
    for (uint32_t number = 0; number < events; number++)
        sordino_tracepoint(brood, hit, child, number);
    if (done != NULL) {
        close(end[1]);
        /* The parent reads one byte of each child, and then closes the pipe for which all of them wait. */
        if (write(done[1], &byte, 1) != 1 || read(end[0], &byte, 1) != 0)
            _exit(1);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    const uint32_t children = argc > 1 ? (uint32_t)atoi(argv[1]) : 1, events = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
    const int together = argc > 3;
    int done[2], end[2], status = 0, failed = 0;
    uint32_t alive = 0;
    char byte = 0;
    if (pipe(done) != 0 || pipe(end) != 0)
        return 2;
    for (uint32_t child = 0; child < children; child++) {
        const pid_t pid = fork();
        if (pid == 0)
            live(child, events, together ? done : NULL, end);
        if (pid < 0)
            return 3;
        alive++;
        for (; !together && alive == ALIVE; alive--)
            failed |= wait(&status) < 0 || status != 0;
    }
    for (uint32_t child = 0; together && child < children; child++)
        failed |= read(done[0], &byte, 1) != 1;
    close(end[1]);
    for (; alive > 0; alive--)
        failed |= wait(&status) < 0 || status != 0;
    printf("%u\n", children);
    return failed;
}
