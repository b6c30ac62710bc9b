/* Tracepoints in children of all kinds: family KIND. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

SORDINO_TRACEPOINT(family, parent, SORDINO_INFO, (u32, number))
SORDINO_TRACEPOINT(family, child, SORDINO_INFO, (u32, number))

static void hit_parent(uint32_t from, uint32_t to)
{
    for (uint32_t number = from; number < to; number++)
        sordino_tracepoint(family, parent, number);
}

static void hit_child(uint32_t events)
{
    for (uint32_t number = 0; number < events; number++)
        sordino_tracepoint(family, child, number);
}

static void daemonize(volatile int *done)
{
    if (fork() != 0)
        return;
    setsid();
    if (fork() == 0) {
        close_range(0, ~0u, 0);
        hit_child(20);
        *done = 1;
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *const kind = argc > 1 ? argv[1] : "";
    volatile int *const done = (volatile int *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!strcmp(kind, "executed")) {
        hit_child(20);
        return 0;
    }
    hit_parent(0, 10);
    if (!strcmp(kind, "fork")) {
        if (fork() == 0) {
            hit_child(20);
            return 0;
        }
    } else if (!strcmp(kind, "raw")) {
        if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) == 0) {
            hit_child(20);
            syscall(SYS_exit_group, 0);
        }
    } else if (!strcmp(kind, "vfork")) {
        const pid_t child = vfork();
        if (child == 0) {
            hit_child(20);
            _exit(0);
        }
        printf("%d\n", child);
    } else if (!strcmp(kind, "exec")) {
        execl(argv[0], argv[0], "executed", NULL);
    } else if (!strcmp(kind, "vfork-exec")) {
        if (vfork() == 0) {
            execl(argv[0], argv[0], "executed", NULL);
            _exit(3);
        }
    } else if (!strcmp(kind, "daemon")) {
        daemonize(done);
        while (!*done)
            usleep(1000);
    } else if (!strcmp(kind, "closed")) {
        close_range(3, ~0u, 0);
        hit_child(20);
    } else if (!strcmp(kind, "reused")) {
        /* Other files get the numbers of the library's former descriptors; a child must not use them. */
        close_range(3, ~0u, 0);
        for (int i = 0; i < 20; i++)
            dup(2);
        if (fork() == 0) {
            hit_child(20);
            for (int i = 3; i < 20; i++)
                if (lseek(i, 0, SEEK_CUR) == -1 && errno == EBADF)
                    _exit(4);
            _exit(0);
        }
    }
    int status = 0;
    hit_parent(10, 20);
    wait(&status);
    if (!strcmp(kind, "at-once"))
        _exit(0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 9;
}
