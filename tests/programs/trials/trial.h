/* Trials of `sordino explain`: disturbances of a thread, each measured by the clock readings of those that take part.
 * Written from docs/causes.md alone. */
#ifndef TRIAL_H
#define TRIAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { US = 1000, MS = 1000000 };

struct policy {
    int policy, priority; /* priority: of real-time policies; the nice value otherwise */
};

/* A kind of disturbance. The victim calls plant within an interval, and before and after outside of it. plant returns
 * the length in nanoseconds that the participants measured, or 0 if this round does not count. */
struct kind {
    const char *name, *expect;
    void (*prepare)(void);
    uint64_t (*plant)(void);
    void (*before)(void), (*after)(void);
    struct policy victim; /* zero: SCHED_FIFO 50 */
    int rounds;           /* at most this number of rounds with a disturbance; zero: no limit */
    uint64_t busy;        /* nanoseconds of own work that every round has, where the victim measures by `gaps` */
};

/* A thread that takes part: waits to be started, does its work, and waits again. */
struct helper {
    const char *name;
    int cpu;
    struct policy policy;
    void (*work)(struct helper *);
    uint64_t due;               /* the absolute time at which `burst` begins its work */
    uint64_t length;            /* nanoseconds of work */
    _Atomic uint64_t from, until; /* its own readings of the clock */
    atomic_bool ready;
    pid_t tid;
    sem_t started, ended;
};

extern int here, there;  /* the victim's CPU, and the other one */
extern pid_t victim_tid;
extern const struct kind *chosen;
extern struct helper *worker; /* the helper whose work is printed, if any */
extern const uint64_t amount; /* usual length of a disturbance, nanoseconds */
extern const struct kind running[], waiting[], sleeping[], storing[];

uint64_t now(void);
void burn(uint64_t length);
void rest_until(uint64_t time);
/* The chosen kind's own work: reads the clock, and returns the sum of the gaps above `least`. */
uint64_t gaps(uint64_t least);
/* Ends the program with status 3: this machine cannot plant the kind, with the reason. */
void impossible(const char *what);
int need(int result, const char *what);
void be(struct policy policy);
void stay_on(pid_t tid, int cpu);
struct helper *helper(const char *name, int cpu, struct policy policy, void (*work)(struct helper *));
void start(struct helper *helper);
void finish(struct helper *helper);
/* Work of a helper: from `due` on, or at once, for `length`. */
void burst(struct helper *helper);
/* Writes a text to a file; at the program's end the file gets back its text of now. */
void set(const char *path, const char *text);
void write_file(const char *path, const char *text);
/* Removes a file or an empty directory at the program's end. */
void removed_at_end(const char *path);
/* Creates a directory that is removed at the program's end. */
void directory(const char *path);
/* Kernel attributes of SCHED_DEADLINE for this thread. */
void be_deadline(uint64_t runtime, uint64_t period);

#define FIFO(n) ((struct policy){ SCHED_FIFO, n })
#define RR(n) ((struct policy){ SCHED_RR, n })
#define FAIR(n) ((struct policy){ SCHED_OTHER, n })
#endif
