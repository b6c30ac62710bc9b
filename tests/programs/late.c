/* Sleeps for a while, then hits ten events: late MILLISECONDS. */
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <unistd.h>

SORDINO_TRACEPOINT(late, step, SORDINO_INFO, (u32, number))

int main(int argc, char **argv)
{
    usleep(1000 * (useconds_t)(argc > 1 ? atoi(argv[1]) : 1000));
    for (uint32_t number = 0; number < 10; number++)
        sordino_tracepoint(late, step, number);
    return 0;
}
