/* Starts programs without a recorder's environment, all at once, and waits for them: parent COUNT PROGRAM ARGUMENT...
 * */
#include <sordino/tracepoint.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

SORDINO_TRACEPOINT(parent, started, SORDINO_INFO, (i32, pid))

int main(int argc, char **argv)
{
    const int count = argc > 2 ? atoi(argv[1]) : 0;
    unsetenv("SORDINO_SESSION");
    puts("ready");
    fflush(stdout);
    while (!sordino_enabled(parent, started))
        usleep(1000);
    for (int i = 0; i < count; i++) {
        pid_t pid;
        if (posix_spawn(&pid, argv[2], NULL, NULL, argv + 2, environ) != 0)
            return 3;
        sordino_tracepoint(parent, started, pid);
        /* Any moment between two polls of the recorder. */
        usleep(7300);
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}
