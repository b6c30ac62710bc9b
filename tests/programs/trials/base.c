/* The clock, threads and files that all kinds use. */
#include "trial.h"
#include <sys/resource.h>
#include <sys/stat.h>

const uint64_t amount = 2 * MS;

uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void burn(uint64_t length)
{
    for (const uint64_t until = now() + length; now() < until;)
        ;
}

void rest_until(uint64_t time)
{
    const struct timespec due = { (time_t)(time / 1000000000), (long)(time % 1000000000) };
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

uint64_t gaps(uint64_t least)
{
    uint64_t sum = 0, own = 0, last = now();
    while (own < chosen->busy) {
        const uint64_t next = now();
        *(next - last > least ? &sum : &own) += next - last;
        last = next;
    }
    return sum;
}

void impossible(const char *what)
{
    printf("refused: %s: %s\n", what, strerror(errno));
    exit(3);
}

int need(int result, const char *what)
{
    if (result < 0)
        impossible(what);
    return result;
}

void stay_on(pid_t tid, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int each = 0; each < CPU_SETSIZE; each++)
        if (cpu < 0 || each == cpu)
            CPU_SET(each, &set);
    need(sched_setaffinity(tid, sizeof set, &set), "sched_setaffinity");
}

void be(struct policy policy)
{
    const bool fair = policy.policy == SCHED_OTHER;
    const struct sched_param parameter = { fair ? 0 : policy.priority };
    need(sched_setscheduler(0, policy.policy, &parameter), "sched_setscheduler");
    if (fair)
        need(setpriority(PRIO_PROCESS, (id_t)gettid(), policy.priority), "setpriority");
}

void be_deadline(uint64_t runtime, uint64_t period)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = { sizeof attributes, 6, 0, 0, 0, runtime, period, period };
    stay_on(0, -1);
    need((int)syscall(SYS_sched_setattr, 0, &attributes, 0), "SCHED_DEADLINE");
}

void burst(struct helper *self)
{
    if (self->due)
        rest_until(self->due);
    self->from = now();
    self->ready = true;
    burn(self->length);
    self->until = now();
}

static void *body(void *argument)
{
    struct helper *self = argument;
    pthread_setname_np(pthread_self(), self->name);
    self->tid = gettid();
    stay_on(0, self->cpu);
    if (self->policy.policy == 6)
        be_deadline(5 * MS, 100 * MS);
    else
        be(self->policy);
    sem_post(&self->ended);
    for (;;) {
        sem_wait(&self->started);
        self->work(self);
        sem_post(&self->ended);
    }
    return NULL;
}

struct helper *worker;

struct helper *helper(const char *name, int cpu, struct policy policy, void (*work)(struct helper *))
{
    pthread_t thread;
    struct helper *self = calloc(1, sizeof *self);
    self->name = name;
    self->cpu = cpu;
    self->policy = policy;
    self->work = work;
    self->length = amount;
    sem_init(&self->started, 0, 0);
    sem_init(&self->ended, 0, 0);
    need(pthread_create(&thread, NULL, body, self), "a thread");
    sem_wait(&self->ended);
    sem_post(&self->ended);
    return self;
}

void start(struct helper *self)
{
    sem_wait(&self->ended);
    self->ready = false;
    sem_post(&self->started);
}

void finish(struct helper *self)
{
    sem_wait(&self->ended);
    sem_post(&self->ended);
}

/* Changes to the machine, undone in reverse order. */
static struct change {
    char *path, *text;
    pid_t owner;
    struct change *next;
} *changes;

/* Moves the threads of a control group to its parent: a group with threads cannot be removed. */
static void clear(const char *group)
{
    char path[256], tid[32];
    snprintf(path, sizeof path, "%s/tasks", group);
    FILE *tasks = fopen(path, "r");
    snprintf(path, sizeof path, "%s/../tasks", group);
    while (tasks && fgets(tid, sizeof tid, tasks))
        write_file(path, tid);
    if (tasks)
        fclose(tasks);
}

static void undo(void)
{
    for (struct change *change = changes; change && change->owner == getpid(); change = change->next)
        if (change->text)
            write_file(change->path, change->text);
        else {
            clear(change->path);
            remove(change->path);
        }
}

static void note(const char *path, char *text)
{
    struct change *change = malloc(sizeof *change);
    *change = (struct change){ strdup(path), text, getpid(), changes };
    if (!changes)
        atexit(undo);
    changes = change;
}

void write_file(const char *path, const char *text)
{
    const int file = need(open(path, O_WRONLY | O_CLOEXEC), path);
    need((int)write(file, text, strlen(text)), path);
    close(file);
}

void set(const char *path, const char *text)
{
    char was[256] = "";
    const int file = need(open(path, O_RDONLY | O_CLOEXEC), path);
    need((int)read(file, was, sizeof was - 1), path);
    close(file);
    note(path, strdup(was));
    write_file(path, text);
}

void removed_at_end(const char *path)
{
    note(path, NULL);
}

void directory(const char *path)
{
    if (mkdir(path, 0700) && errno != EEXIST)
        impossible(path);
    note(path, NULL);
}
