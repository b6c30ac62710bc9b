/* An ordinary thread that works all the time and hits a tracepoint each millisecond: ordinary CPU SECONDS
 * Prints its pid. */
#include "common.h"
#include "tracer.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    const double end = seconds() + (argc > 2 ? atof(argv[2]) : 1);
    double next = 0;

    stay_on(argc > 1 ? atoi(argv[1]) : 1);
    for (double now = seconds(); now < end; now = seconds()) {
        if (now >= next) {
            next = now + 1e-3;
            HIT(1, 2);
        }
    }
    printf("%d\n", getpid());
    return 0;
}
