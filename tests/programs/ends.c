/* Hits one event and ends as its arguments say: ends exit STATUS | ends signal NUMBER. */
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <unistd.h>

SORDINO_TRACEPOINT(ends, soon, SORDINO_INFO, (i32, number))

int main(int argc, char **argv)
{
    const int number = argc > 2 ? atoi(argv[2]) : 0;
    sordino_tracepoint(ends, soon, number);
    if (argc > 1 && !strcmp(argv[1], "signal"))
        kill(getpid(), number);
    return number;
}
