/* Sleeps this many milliseconds: sleeper MILLISECONDS. Is not linked with sordino. */
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    const long all = argc > 1 ? atol(argv[1]) : 0;
    const struct timespec time = {all / 1000, all % 1000 * 1000000};
    return nanosleep(&time, NULL);
}
