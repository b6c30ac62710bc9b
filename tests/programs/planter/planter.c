/* Plants one kind of disturbance into some rounds of a thread, and says how long each one was by its own clock.
 *
 *     planter KIND CPU [ROUNDS]
 *
 * The thread 'victim' runs on CPU; each of its rounds lies between plant:begin and plant:end, and takes some 1.5 ms if nothing is planted,
 * as in two of three. A line for each planted round: its number and the length of the disturbance in ns. The exit status is 3 where the
 * machine refuses the kind; a line says why. */
#define _GNU_SOURCE
#include "common.h"
#include "running.h"
#include "kernel.h"
#include "sleeping.h"
#include "waiting.h"
#include <sordino/tracepoint.h>

SORDINO_TRACEPOINT(plant, begin, SORDINO_INFO, (u32, round))
SORDINO_TRACEPOINT(plant, end, SORDINO_INFO, (u32, round))

/* CPU of the disturbing thread. */
enum place { NOWHERE, HERE, THERE };

static const struct kind {
    const char *name;
    /* Work of the victim in a planted round. Returns the disturbance's length in ns. */
    long (*plant)(void);
    /* Called once, before there is any other thread. */
    void (*set_up)(void);
    /* Called before each round. */
    void (*prepare)(void);
    /* Disturbing thread: its function, name, argument and priority. */
    void *(*disturb)(void *);
    const char *disturber;
    void *argument;
    int priority;
    enum place place;
} kinds[] = {
    { "own", own, NULL, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "spin_lock", takes_spin_lock, make_spin_lock, NULL, holds, "holder", &spin_lock, BELOW, THERE },
    { "call", call, NULL, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "unmap", unmaps, NULL, map_large, NULL, NULL, NULL, 0, NOWHERE },
    { "fork", forks, NULL, reap, NULL, NULL, NULL, 0, NOWHERE },
    { "lock_memory", locks_memory, NULL, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "signal", is_signalled, handle_signals, NULL, sends, "sender", NULL, BELOW, THERE },
    { "alarm", is_alarmed, handle_signals, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "interrupts", is_interrupted, register_barrier, NULL, sends_barriers, "sender", NULL, BELOW, THERE },
    { "packets", handles_packets, NULL, outlast_packets, sends_packets, "sender", NULL, BELOW, THERE },
    { "faults", faults, NULL, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "copy_on_write", copies_on_write, NULL, share_pages, NULL, NULL, NULL, 0, NOWHERE },
    { "huge_pages", faults_on_huge_pages, need_huge_pages, NULL, NULL, NULL, NULL, 0, NOWHERE },

    { "preempted", preempted, NULL, NULL, hogs, "hog", NULL, ABOVE, HERE },
    { "deadline_thread", preempted, NULL, NULL, hogs_with_deadline, "hog", NULL, ABOVE, HERE },
    { "woken_behind", woken_behind, NULL, NULL, hogs, "hog", (void *)500000, ABOVE, HERE },
    { "same_priority", woken_behind, NULL, NULL, hogs, "hog", (void *)500000, VICTIM, HERE },
    { "round_robin", woken_behind, NULL, NULL, alternating_hogs, "hog", (void *)500000, VICTIM, HERE },
    { "yield", yields, NULL, NULL, hogs, "peer", NULL, VICTIM, HERE },
    { "moved", moves, NULL, NULL, hogs_elsewhere, "hog", NULL, ABOVE, THERE },
    { "fair_server", beside_fair, NULL, NULL, burns, "fair", NULL, 0, HERE },
    { "deadline", uses_up, NULL, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "quota", uses_up, NULL, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "real_time_quota", uses_up, NULL, NULL, NULL, NULL, NULL, 0, NOWHERE },

    { "lock", takes_plain, NULL, NULL, holds, "holder", &plain_lock, BELOW, THERE },
    { "lending_lock", takes_lending, make_lending_lock, NULL, holds, "holder", &lending_lock, BELOW, HERE },
    { "write_lock", takes_to_write, NULL, NULL, holds, "holder", &read_lock, BELOW, THERE },
    { "file_lock", takes_file, open_files, NULL, holds, "holder", &holders_file_lock, BELOW, THERE },
    { "inversion", takes_inverted, start_third, NULL, holds, "holder", &plain_lock, BELOW, HERE },
    { "condition", waits_for_condition, NULL, NULL, works, "worker", &before_condition, BELOW, THERE },
    { "barrier", waits_at_barrier, make_barrier, NULL, works, "worker", &before_barrier, BELOW, THERE },
    { "semaphore", waits_for_semaphore, NULL, NULL, works, "worker", &before_post, BELOW, THERE },
    { "join", joins, NULL, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "child", waits_for_child, NULL, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "signal_wait", waits_for_signal, block_signal, NULL, works, "worker", &before_signal, BELOW, THERE },
    { "pipe", reads, make_pipe, NULL, works, "worker", &before_write, BELOW, THERE },
    { "full_pipe", fills, make_pipe, NULL, works, "worker", &before_read, BELOW, THERE },
    { "socket", reads, make_socket, NULL, works, "worker", &before_write, BELOW, THERE },
    { "connection", reads, connect_ends, NULL, works, "worker", &before_write, BELOW, THERE },
    { "accept", accepts, listens, NULL, works, "worker", &before_connection, BELOW, THERE },
    { "short_sleeps", reads, make_pipe, NULL, works, "worker", &before_late_write, BELOW, THERE },
    { "eventfd", reads, make_eventfd, NULL, works, "worker", &before_write, BELOW, THERE },
    { "poll", polls, make_pipe, NULL, works, "worker", &before_write, BELOW, THERE },
    { "epoll", polls_many, make_epoll, NULL, works, "worker", &before_write, BELOW, THERE },
    { "message", receives_message, make_queue, NULL, works, "worker", &before_message, BELOW, THERE },
    { "chain", chain, start_stages, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "stopped", stopped, start_stopper, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "page_reads", reads_pages, NULL, map_file, NULL, NULL, NULL, 0, NOWHERE },
    { "brought_page", awaits_page, await_pages, drop_page, brings_pages, "worker", NULL, BELOW, THERE },
    { "direct_read", reads_directly, NULL, write_through, NULL, NULL, NULL, 0, NOWHERE },
    { "sync", syncs, NULL, write_file, NULL, NULL, NULL, 0, NOWHERE },
    { "sleep", sleeps, NULL, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "timer", reads_timer, NULL, NULL, NULL, NULL, NULL, 0, NOWHERE },
    { "irqs_off", misses_timer, attach_blocker, NULL, disables_interrupts, BLOCKER, NULL, BELOW, HERE },
    { "slack", oversleeps, NULL, NULL, NULL, NULL, NULL, 0, NOWHERE },
};

static uint32_t all_rounds = 10;

static void *rounds(void *argument)
{
    const struct kind *kind = argument;
    const int is_starving = kind->plant == beside_fair;
    /* The time that limits allow has been replenished after that. */
    const long pause = kind->plant == uses_up ? 100 * MS : 2 * MS;
    victim = pthread_self();
    /* Among ordinary threads it should wait for as few as possible. */
    setpriority(PRIO_PROCESS, 0, -20);
    if (strcmp(kind->name, "deadline") == 0)
        become_deadline(2 * MS, 40 * MS);
    for (uint32_t round = 0; round < all_rounds; round++) {
        long planted = 0;
        const int is_planted = round > 0 && round % 3 == 0;
        if (kind->prepare)
            kind->prepare();
        rest(pause);
        if (is_planted && is_starving) {
            ask();
            spin(940 * MS);
        }
        sordino_tracepoint(plant, begin, round);
        spin(MS / 2);
        if (!is_starving)
            rest(MS);
        if (is_planted)
            planted = kind->plant();
        sordino_tracepoint(plant, end, round);
        if (is_planted)
            printf("%u %ld\n", round, planted);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const struct kind *kind = kinds, *end = kinds + sizeof kinds / sizeof *kinds;

    if (argc < 3)
        return 2;
    while (kind < end && strcmp(kind->name, argv[1]) != 0)
        kind++;
    if (kind == end)
        return 2;
    cpu = atoi(argv[2]);
    other_cpu = cpu == 0 ? 1 : 0;
    if (argc > 3)
        all_rounds = atoi(argv[3]);
    /* Signals to the process go through this thread, which the victim would starve. */
    run_on(other_cpu);
    if (kind->set_up)
        kind->set_up();
    if (kind->disturb)
        disturber = start(kind->disturber, kind->disturb, kind->argument, kind->priority,
            kind->place == THERE ? other_cpu : cpu);
    /* Quotas apply to ordinary threads alone, and only those have timer slack. */
    const int is_ordinary = strcmp(kind->name, "quota") == 0 || strcmp(kind->name, "slack") == 0;
    pthread_join(start("victim", rounds, (void *)kind, is_ordinary ? 0 : VICTIM, cpu), NULL);
    close_file();
    return 0;
}
