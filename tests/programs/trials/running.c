/* The victim has the CPU: its own code, system calls, handlers, interrupts, faults. */
#include "trial.h"
#include <arpa/inet.h>
#include <linux/membarrier.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

static uint64_t own(void)
{
    const uint64_t from = now();
    burn(amount);
    return now() - from;
}

static void spin_prepare(void)
{
    worker = helper("holder", there, FIFO(60), burst);
}

static uint64_t spin(void)
{
    start(worker);
    const uint64_t from = now();
    while (!worker->ready || !worker->until || worker->until < worker->from)
        ;
    return now() - from;
}

enum { LARGE = 24 << 20 };
static char *area;
static int file;

static void zero_prepare(void)
{
    area = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    file = need(open("/dev/zero", O_RDONLY), "/dev/zero");
}

static uint64_t zero(void)
{
    const uint64_t from = now();
    need((int)read(file, area, LARGE), "read");
    return now() - from;
}

static uint64_t populate(void)
{
    const uint64_t from = now();
    area = mmap(NULL, LARGE / 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return now() - from;
}

static void unmap(void)
{
    munmap(area, LARGE / 4);
}

static void memory_file(void)
{
    zero_prepare();
    file = need((int)syscall(SYS_memfd_create, "trial", 0), "memfd");
}

static void cut(void)
{
    need(ftruncate(file, 0), "ftruncate");
}

static uint64_t fill(void)
{
    const uint64_t from = now();
    need((int)pwrite(file, area, 4 << 20, 0), "pwrite");
    return now() - from;
}

static void map_fresh(void)
{
    area = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
}

static uint64_t forget(void)
{
    const uint64_t from = now();
    need(madvise(area, LARGE, MADV_DONTNEED), "madvise");
    return now() - from;
}

static void unmap_large(void)
{
    munmap(area, LARGE);
}

/* Handlers. */
static _Atomic uint64_t handled;

static void handler(int number)
{
    const uint64_t from = now();
    burn(amount);
    (void)number;
    handled = now() - from;
}

static void sends_signal(struct helper *self)
{
    self->from = now();
    syscall(SYS_tgkill, getpid(), victim_tid, SIGUSR2);
    self->until = now();
}

static void handlers(void)
{
    const struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGRTMIN + 1, &action, NULL);
}

static void sender_prepare(void)
{
    handlers();
    worker = helper("sender", there, FIFO(60), sends_signal);
}

static uint64_t signalled(void)
{
    handled = 0;
    start(worker);
    while (!handled)
        ;
    return handled;
}

static uint64_t signals_itself(void)
{
    handled = 0;
    syscall(SYS_tgkill, getpid(), gettid(), SIGRTMIN + 1);
    return handled;
}

static char *closed;

static void opens(int number)
{
    handler(number);
    mprotect(closed, 4096, PROT_READ | PROT_WRITE);
}

static void trap_prepare(void)
{
    const struct sigaction action = { .sa_handler = opens };
    closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, NULL);
}

static void close_page(void)
{
    mprotect(closed, 4096, PROT_NONE);
}

static uint64_t trap(void)
{
    *(volatile char *)closed = 1;
    return handled;
}

/* Interrupts: the victim sums up the gaps in its own readings of the clock. */
static void barriers(struct helper *self)
{
    self->from = now();
    for (int i = 0; i < 200; i++)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    self->until = now();
}

static void barrier_prepare(void)
{
    need((int)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0), "membarrier");
    worker = helper("sender", there, FIFO(60), barriers);
}

static uint64_t stormed(void)
{
    start(worker);
    return gaps(1500);
}

static void protects(struct helper *self)
{
    self->from = now();
    for (int i = 0; i < 100; i++) {
        mprotect(closed, 4096, PROT_READ);
        mprotect(closed, 4096, PROT_READ | PROT_WRITE);
        *(volatile char *)closed = 1;
    }
    self->until = now();
}

static void protect_prepare(void)
{
    closed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    worker = helper("sender", there, FIFO(60), protects);
}

enum { TIMERS = 120 };
static int timers[TIMERS];

static void timers_prepare(void)
{
    for (int i = 0; i < TIMERS; i++)
        timers[i] = need(timerfd_create(CLOCK_MONOTONIC, 0), "timerfd");
}

static void arm(void)
{
    const uint64_t first = now() + 3 * MS;
    for (int i = 0; i < TIMERS; i++) {
        const uint64_t due = first + (uint64_t)i * 12 * US;
        const struct itimerspec time = { { 0, 0 }, { (time_t)(due / 1000000000), (long)(due % 1000000000) } };
        timerfd_settime(timers[i], TFD_TIMER_ABSTIME, &time, NULL);
    }
    rest_until(first - 1500 * US);
}

static uint64_t expiries(void)
{
    return gaps(1500);
}

static void floods(struct helper *self)
{
    static char data[64];
    self->from = now();
    for (int i = 0; i < 100; i++)
        (void)!write(file, data, sizeof data);
    self->until = now();
}

static void flood_prepare(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    const int receiver = socket(AF_INET, SOCK_DGRAM, 0);
    need(bind(receiver, (struct sockaddr *)&address, length), "bind");
    getsockname(receiver, (struct sockaddr *)&address, &length);
    file = socket(AF_INET, SOCK_DGRAM, 0);
    need(connect(file, (struct sockaddr *)&address, length), "connect");
    set("/sys/class/net/lo/queues/rx-0/rps_cpus", here ? "2" : "1");
    worker = helper("sender", there, FIFO(60), floods);
}

/* Faults. */
enum { PAGES = 512 };

static void fresh(void)
{
    area = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(area, PAGES * 4096, MADV_NOHUGEPAGE);
}

static void gone(void)
{
    munmap(area, PAGES * 4096);
}

static uint64_t touch(void)
{
    const uint64_t from = now();
    for (int i = 0; i < PAGES; i++)
        ((volatile char *)area)[i * 4096] = 1;
    return now() - from;
}

static void look(void)
{
    for (int i = 0; i < PAGES; i++)
        (void)((volatile char *)area)[i * 4096];
}

static void zero_pages(void)
{
    fresh();
    look();
}

static void content(void)
{
    static char page[4096] = "x";
    file = need((int)syscall(SYS_memfd_create, "trial", 0), "memfd");
    for (int i = 0; i < PAGES; i++)
        need((int)write(file, page, sizeof page), "write");
}

static void private_file(void)
{
    area = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    look();
}

static void disk_file(void)
{
    file = need(open(".", O_TMPFILE | O_RDWR, 0600), "O_TMPFILE");
    static char page[4096] = "x";
    for (int i = 0; i < PAGES; i++)
        need((int)write(file, page, sizeof page), "write");
}

static void shared_file(void)
{
    fsync(file);
    area = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    look();
}

static char *huge;
enum { HUGE = 16 << 20 };

static void huge_prepare(void)
{
    huge = mmap(NULL, HUGE + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    huge = (char *)(((uintptr_t)huge + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
    need(madvise(huge, HUGE, MADV_HUGEPAGE), "MADV_HUGEPAGE");
}

static void huge_gone(void)
{
    madvise(huge, HUGE, MADV_DONTNEED);
}

static uint64_t huge_touch(void)
{
    const uint64_t from = now();
    for (int i = 0; i < HUGE; i += 2 << 20)
        ((volatile char *)huge)[i] = 1;
    return now() - from;
}

/* The pages of two areas become one (KSM); the victim writes to its area. */
static char *twins;

static void merge_prepare(void)
{
    twins = mmap(NULL, 2 * PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(twins, 2 * PAGES * 4096, MADV_NOHUGEPAGE);
    area = twins;
    set("/sys/kernel/mm/ksm/pages_to_scan", "20000");
    set("/sys/kernel/mm/ksm/sleep_millisecs", "1");
}

static void merge(void)
{
    int pages = 0;
    for (int i = 0; i < 2 * PAGES; i++) {
        memset(twins + i * 4096, 0, 4096);
        *(int *)(twins + i * 4096) = 1 + i % PAGES;
    }
    madvise(twins, 2 * PAGES * 4096, MADV_MERGEABLE);
    write_file("/sys/kernel/mm/ksm/run", "1");
    for (int i = 0; i < 200 && pages < PAGES; i++) {
        char text[32] = "";
        const int shared = open("/sys/kernel/mm/ksm/pages_sharing", O_RDONLY);
        rest_until(now() + 10 * MS);
        (void)!read(shared, text, sizeof text - 1);
        close(shared);
        pages = atoi(text);
    }
    write_file("/sys/kernel/mm/ksm/run", "0");
    if (pages < PAGES)
        impossible("KSM did not merge the pages");
}

static void unmerge(void)
{
    write_file("/sys/kernel/mm/ksm/run", "2");
    write_file("/sys/kernel/mm/ksm/run", "0");
}

const struct kind running[] = {
    { .name = "own", .expect = "kind=own", .plant = own },
    { .name = "user_spinlock", .expect = "kind=own", .prepare = spin_prepare, .plant = spin },
    { .name = "long_read", .expect = "kind=syscall call=read", .prepare = zero_prepare, .plant = zero },
    { .name = "populate", .expect = "kind=syscall call=mmap", .plant = populate, .after = unmap },
    { .name = "fill_memfd", .expect = "kind=syscall call=pwrite64", .prepare = memory_file, .before = cut,
      .plant = fill },
    { .name = "madvise", .expect = "kind=syscall call=madvise", .before = map_fresh, .plant = forget,
      .after = unmap_large },
    { .name = "signal", .expect = "kind=signal_handler by=sender", .prepare = sender_prepare, .plant = signalled },
    { .name = "own_signal", .expect = "kind=signal_handler by=subject", .prepare = handlers, .plant = signals_itself },
    { .name = "trap", .expect = "kind=signal_handler", .prepare = trap_prepare, .before = close_page, .plant = trap },
    { .name = "membarriers", .expect = "kind=vector by=sender", .prepare = barrier_prepare, .plant = stormed,
      .busy = 4 * MS },
    { .name = "mprotects", .expect = "kind=vector by=sender", .prepare = protect_prepare, .plant = stormed,
      .busy = 4 * MS },
    { .name = "timers", .expect = "kind=vector name=local_timer", .prepare = timers_prepare, .before = arm,
      .plant = expiries, .busy = 3 * MS },
    { .name = "steered_packets", .expect = "kind=softirq|vector magnitude=none", .prepare = flood_prepare,
      .plant = stormed, .busy = 4 * MS },
    { .name = "new_pages", .expect = "kind=page_fault reason=missing", .before = fresh, .plant = touch, .after = gone },
    { .name = "zero_page", .expect = "kind=page_fault reason=write_protected", .before = zero_pages, .plant = touch,
      .after = gone },
    { .name = "private_file", .expect = "kind=page_fault reason=write_protected", .prepare = content,
      .before = private_file,
      .plant = touch, .after = gone },
    { .name = "clean_file", .expect = "kind=page_fault reason=write_protected", .prepare = disk_file,
      .before = shared_file,
      .plant = touch, .after = gone },
    { .name = "huge_pages", .expect = "kind=page_fault", .prepare = huge_prepare, .before = huge_gone,
      .plant = huge_touch },
    { .name = "merged_pages", .expect = "kind=page_fault reason=write_protected", .prepare = merge_prepare,
      .before = merge,
      .plant = touch, .after = unmerge, .rounds = 4 },
    { 0 },
};
