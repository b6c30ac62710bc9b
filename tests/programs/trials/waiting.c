/* The victim could run, but does not: other threads, and limits of the scheduler. */
#include "trial.h"
#include <sys/stat.h>

static struct helper *second;

static void above(void)
{
    worker = helper("hog", here, FIFO(70), burst);
}

/* The hog begins by a timer while the victim works. */
static uint64_t preempted(void)
{
    worker->due = now() + 300 * US;
    start(worker);
    /* A hog of SCHED_DEADLINE may have gone to the other CPU. */
    const uint64_t gap = gaps(200 * US);
    return gap > amount / 2 ? gap : 0;
}

static char *area;
static int file;

static void above_read(void)
{
    above();
    area = mmap(NULL, 48 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    file = open("/dev/zero", O_RDONLY);
}

static uint64_t preempted_in_read(void)
{
    worker->due = now() + 300 * US;
    worker->length = 6 * MS;
    start(worker);
    (void)!read(file, area, 48 << 20);
    return worker->until - worker->from;
}

/* The victim sleeps, and its timer expires while the hog works. */
static uint64_t woken_behind(void)
{
    const uint64_t begin = now();
    worker->due = begin + 400 * US;
    worker->length = amount + 400 * US;
    start(worker);
    rest_until(begin + 800 * US);
    return worker->until - (begin + 800 * US);
}

static void equal(void)
{
    worker = helper("hog", here, FIFO(50), burst);
}

static void equal_round(void)
{
    worker = helper("hog", here, RR(50), burst);
}

static void deadline(void)
{
    worker = helper("hog", here, (struct policy){ 6, 0 }, burst);
}

static void favoured(void)
{
    worker = helper("hog", here, FAIR(-20), burst);
}

static void lowest(void)
{
    worker = helper("hog", here, FIFO(1), burst);
}

static void two(void)
{
    worker = helper("hogB", here, FIFO(70), burst);
    second = helper("hogA", here, FIFO(71), burst);
}

static uint64_t preempted_by_two(void)
{
    const uint64_t begin = now();
    second->due = begin + 400 * US;
    second->length = amount / 4;
    worker->due = begin + 400 * US + amount / 2;
    start(second);
    start(worker);
    gaps(200 * US);
    return worker->until - worker->from;
}

/* The victim moves itself to the other CPU, where a hog works. */
static void elsewhere(void)
{
    worker = helper("hog", there, FIFO(70), burst);
}

static uint64_t moves(void)
{
    start(worker);
    while (!worker->ready)
        ;
    const uint64_t from = now();
    stay_on(0, there);
    return worker->until - from;
}

static void moves_back(void)
{
    stay_on(0, here);
}

/* Another thread moves the victim there. */
static void pushes(struct helper *self)
{
    self->from = now();
    stay_on(victim_tid, there);
    second->due = 0;
    self->until = now();
}

static void pushed_prepare(void)
{
    elsewhere();
    second = helper("mover", there, FIFO(80), pushes);
}

static uint64_t pushed(void)
{
    start(worker);
    while (!worker->ready)
        ;
    start(second);
    gaps(300 * US);
    finish(second);
    return worker->until - second->from;
}

/* A thread of the policy SCHED_IDLE that becomes a favoured one. */
static atomic_bool ending;

static void background(struct helper *self)
{
    const struct sched_param none = { 0 };
    self->from = now();
    self->ready = true;
    sched_setscheduler(0, SCHED_IDLE, &none);
    while (!ending)
        ;
    self->until = now();
}

static void raises(struct helper *self)
{
    const struct sched_param some = { 60 };
    const uint64_t from = now();
    sched_setscheduler(worker->tid, SCHED_FIFO, &some);
    burn(self->length);
    ending = true;
    self->until = now();
    self->from = from;
}

static void raised_prepare(void)
{
    worker = helper("hog", here, FAIR(19), background);
    second = helper("raiser", there, FIFO(60), raises);
}

static void raised_before(void)
{
    ending = false;
    start(worker);
}

static uint64_t raised(void)
{
    start(second);
    const uint64_t gap = gaps(1 * MS);
    finish(second);
    return gap;
}

/* Limits. */
static char group[128], path[192];

static const char *in_group(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", group, name);
    return path;
}

static void make_group(const char *controller)
{
    snprintf(group, sizeof group, "/sys/fs/cgroup/%s/trials-%d", controller, getpid());
    directory(group);
}

static void join(const char *where)
{
    char text[32];
    snprintf(text, sizeof text, "%d", gettid());
    write_file(where, text);
}

static void leave(void)
{
    char *end = strrchr(strcpy(path, group), '/');
    strcpy(end, "/tasks");
    join(path);
}

static void quota_prepare(void)
{
    make_group("cpu");
    write_file(in_group("cpu.cfs_period_us"), "50000");
    write_file(in_group("cpu.cfs_quota_us"), "15000");
}

static void quota_before(void)
{
    join(in_group("tasks"));
}

static uint64_t over_quota(void)
{
    return gaps(3 * MS);
}

static void rt_group_prepare(void)
{
    make_group("cpu");
    write_file(in_group("cpu.rt_period_us"), "100000");
    write_file(in_group("cpu.rt_runtime_us"), "20000");
}

static void rt_join(void)
{
    be(FAIR(0));
    join(in_group("tasks"));
    be(FIFO(50));
}

static void rt_leave(void)
{
    be(FAIR(0));
    leave();
    be(FIFO(50));
}

static uint64_t over_rt_runtime(void)
{
    return gaps(3 * MS);
}

static void budget_before(void)
{
    be_deadline(5 * MS, 30 * MS);
}

static void budget_after(void)
{
    be(FIFO(50));
    stay_on(0, here);
}

static uint64_t over_budget(void)
{
    return gaps(3 * MS);
}

static void starving(struct helper *self)
{
    self->from = now();
    burn(1500 * MS);
    self->until = now();
}

static void starved_prepare(void)
{
    worker = helper("starving", here, FAIR(0), starving);
}

static uint64_t yields_to_fair(void)
{
    start(worker);
    return gaps(10 * MS);
}

static uint64_t passes(void)
{
    worker->length = amount;
    start(worker);
    const uint64_t from = now();
    sched_yield();
    return now() - from;
}

const struct kind waiting[] = {
    { .name = "timer_hog", .expect = "kind=waiting by=hog", .prepare = above, .plant = preempted, .busy = 1 * MS },
    { .name = "hog_in_read", .expect = "kind=waiting by=hog call=read", .prepare = above_read,
      .plant = preempted_in_read },
    { .name = "behind_higher", .expect = "kind=waiting by=hog after=wake_up", .prepare = above, .plant = woken_behind },
    { .name = "behind_equal", .expect = "kind=waiting by=hog after=wake_up", .prepare = equal, .plant = woken_behind },
    { .name = "behind_round_robin", .expect = "kind=waiting by=hog after=wake_up", .prepare = equal_round,
      .plant = woken_behind, .victim = { SCHED_RR, 50 } },
    { .name = "yield", .expect = "kind=waiting by=hog", .prepare = equal, .plant = passes },
    { .name = "deadline_hog", .expect = "kind=waiting by=hog", .prepare = deadline, .plant = preempted,
      .busy = 1 * MS },
    { .name = "nice", .expect = "kind=waiting by=hog", .prepare = favoured, .plant = preempted, .busy = 1 * MS,
      .victim = { SCHED_OTHER, 19 } },
    { .name = "fair_victim", .expect = "kind=waiting by=hog", .prepare = lowest, .plant = preempted, .busy = 1 * MS,
      .victim = { SCHED_OTHER, -5 } },
    { .name = "two_hogs", .expect = "kind=waiting by=hogB", .prepare = two, .plant = preempted_by_two,
      .busy = 2 * MS },
    { .name = "moves", .expect = "kind=waiting by=hog", .prepare = elsewhere, .plant = moves, .after = moves_back },
    { .name = "is_moved", .expect = "kind=waiting by=hog", .prepare = pushed_prepare, .plant = pushed,
      .after = moves_back,
      .busy = 1 * MS },
    { .name = "raised_hog", .expect = "kind=waiting by=hog", .prepare = raised_prepare, .before = raised_before,
      .plant = raised,
      .busy = 1 * MS },
    { .name = "quota", .expect = "kind=throttled limit=control_group", .prepare = quota_prepare, .before = quota_before,
      .plant = over_quota, .after = leave, .victim = { SCHED_OTHER, -5 }, .rounds = 8, .busy = 30 * MS },
    { .name = "group_rt_runtime", .expect = "kind=throttled limit=real_time", .prepare = rt_group_prepare,
      .before = rt_join,
      .plant = over_rt_runtime, .after = rt_leave, .rounds = 8, .busy = 40 * MS },
    { .name = "deadline_budget", .expect = "kind=throttled limit=deadline", .before = budget_before,
      .plant = over_budget,
      .after = budget_after, .busy = 12 * MS },
    { .name = "fair_server", .expect = "kind=throttled limit=real_time", .prepare = starved_prepare,
      .plant = yields_to_fair,
      .rounds = 2, .busy = 1200 * MS },
    { 0 },
};
