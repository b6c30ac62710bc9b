/* Executes a program that is killed if it connects to a socket or starts a thread or a process. */
#define _GNU_SOURCE
#include "filter.h"

int main(int argc, char **argv)
{
    const unsigned forbidden[] = {SYS_socket, SYS_connect, SYS_clone, SYS_clone3, SYS_fork, SYS_vfork};
    if (argc < 2)
        return 3;
    filter(forbidden, 6, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    execv(argv[1], argv + 1);
    return 3;
}
