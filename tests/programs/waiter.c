/* Makes system calls until a file exists, then forks a child that does the same: waiter FILE. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    while (argc > 1 && access(argv[1], F_OK) != 0)
        usleep(1000);
    if (fork() == 0) {
        for (int i = 0; i < 100; i++)
            syscall(SYS_getpid);
        _exit(0);
    }
    wait(NULL);
    return 0;
}
