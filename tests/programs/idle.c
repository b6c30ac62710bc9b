/* Is linked with sordino, locks its memory, and waits to be killed. With an argument, ends at once. */
#include <sordino/tracepoint.h>
#include <sys/mman.h>
#include <unistd.h>

SORDINO_TRACEPOINT(idle, never, SORDINO_INFO, (u64, number))

int main(int argc, char **argv)
{
    (void)argv;
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        perror("mlockall");
        return 1;
    }
    sordino_tracepoint(idle, never, 1);
    puts("locked");
    fflush(stdout);
    return argc > 1 ? 0 : pause();
}
