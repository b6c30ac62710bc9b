/* The victim sleeps for pages, disks, supervisors and limits of others. */
#include "trial.h"
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { PAGE = 4096, LENGTH = 64 << 20 };
static int file;
static off_t offset;
static char *area;

static off_t next_offset(void)
{
    return offset = (off_t)((uint64_t)offset + 2311 * PAGE) % LENGTH;
}

/* A file on disk, without pages in memory. */
static void disk_file(int flags)
{
    static char block[1 << 20] __attribute__((aligned(4096)));
    char name[64];
    snprintf(name, sizeof name, "trials-%d.data", getpid());
    file = need(open(name, O_RDWR | O_CREAT | O_EXCL, 0600), name);
    memset(block, 'x', sizeof block);
    for (int i = 0; i < LENGTH; i += (int)sizeof block)
        need((int)write(file, block, sizeof block), "write");
    need(fsync(file), "fsync");
    need(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), "fadvise");
    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    if (flags) {
        close(file);
        file = need(open(name, O_RDWR | flags), "O_DIRECT");
    }
    unlink(name);
}

static void mapped_prepare(void)
{
    disk_file(0);
    area = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, file, 0);
    madvise(area, LENGTH, MADV_RANDOM);
}

/* Time within major faults, by the victim's own clock. */
static uint64_t major_faults(void)
{
    const uint64_t from = now();
    for (int i = 0; i < 20; i++)
        (void)((volatile char *)area)[next_offset()];
    return now() - from;
}

static void direct_prepare(void)
{
    disk_file(O_DIRECT);
    area = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
}

static uint64_t direct(void)
{
    const uint64_t from = now();
    for (int i = 0; i < 20; i++)
        need((int)pread(file, area, PAGE, next_offset()), "pread");
    return now() - from;
}

static void buffered_prepare(void)
{
    disk_file(0);
    area = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
}

static void drop(void)
{
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

static aio_context_t context;

static void aio_prepare(void)
{
    direct_prepare();
    need((int)syscall(SYS_io_setup, 8, &context), "io_setup");
}

static uint64_t asynchronous(void)
{
    const uint64_t from = now();
    for (int i = 0; i < 20; i++) {
        struct iocb request = { .aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = (uint32_t)file,
    .aio_buf = (uintptr_t)area,
                                .aio_nbytes = PAGE, .aio_offset = next_offset() }, *requests = &request;
        struct io_event event;
        need((int)syscall(SYS_io_submit, context, 1, &requests), "io_submit");
        need((int)syscall(SYS_io_getevents, context, 1, 1, &event, NULL), "io_getevents");
    }
    return now() - from;
}

/* Interrupts of the disk on the victim's CPU, requested by the other one. */
static void reads(struct helper *self)
{
    self->from = now();
    for (int i = 0; i < 60; i++)
        (void)!pread(file, area, PAGE, next_offset());
    self->until = now();
}

/* Makes sure that the disk's interrupt comes to the victim's CPU: the kernel may manage its affinity. */
static void is_here(void)
{
    char line[512], path[64];
    FILE *list = fopen("/proc/interrupts", "r");
    while (list && fgets(line, sizeof line, list)) {
        int cpu = -1;
        if (!strstr(line, "-req."))
            continue;
        snprintf(path, sizeof path, "/proc/irq/%d/effective_affinity_list", atoi(line));
        FILE *effective = fopen(path, "r");
        if (effective && fscanf(effective, "%d", &cpu) == 1 && cpu == here)
            return;
    }
    errno = ENODEV;
    impossible("a disk whose interrupt comes to this CPU");
}

static void interrupts_prepare(void)
{
    is_here();
    direct_prepare();
    worker = helper("reader", there, FIFO(60), reads);
}

static uint64_t interrupted(void)
{
    start(worker);
    return gaps(1500);
}

/* Supervisors: a page, an open file, a system call that another thread has to permit. */
static int supervisor;

static void answers_fault(struct helper *self)
{
    struct uffd_msg message;
    static char page[PAGE] __attribute__((aligned(4096)));
    need((int)read(supervisor, &message, sizeof message), "userfaultfd");
    self->from = now();
    burn(self->length);
    self->until = now();
    struct uffdio_copy copy = { .dst = (uintptr_t)area, .src = (uintptr_t)page, .len = PAGE };
    need(ioctl(supervisor, UFFDIO_COPY, &copy), "UFFDIO_COPY");
}

static void fault_prepare(void)
{
    struct uffdio_api api = { .api = UFFD_API };
    supervisor = need((int)syscall(SYS_userfaultfd, O_CLOEXEC), "userfaultfd");
    need(ioctl(supervisor, UFFDIO_API, &api), "UFFDIO_API");
    area = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = { .range = { (uintptr_t)area, PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
    need(ioctl(supervisor, UFFDIO_REGISTER, &range), "UFFDIO_REGISTER");
    worker = helper("pager", there, FIFO(40), answers_fault);
}

static void page_gone(void)
{
    madvise(area, PAGE, MADV_DONTNEED);
}

static uint64_t paged(void)
{
    start(worker);
    burn(100 * US);
    const uint64_t from = now();
    *(volatile char *)area = 1;
    return worker->until - from;
}

static void permits(struct helper *self)
{
    struct fanotify_event_metadata event;
    need((int)read(supervisor, &event, sizeof event), "fanotify");
    self->from = now();
    burn(self->length);
    self->until = now();
    struct fanotify_response response = { event.fd, FAN_ALLOW };
    (void)!write(supervisor, &response, sizeof response);
    close(event.fd);
}

static char name[64];

static void permission_prepare(void)
{
    snprintf(name, sizeof name, "/tmp/trials-%d", getpid());
    directory(name);
    supervisor = need(fanotify_init(FAN_CLASS_CONTENT, O_RDONLY), "fanotify");
    need(fanotify_mark(supervisor, FAN_MARK_ADD, FAN_OPEN_PERM | FAN_ONDIR, AT_FDCWD, name), "fanotify");
    worker = helper("permitter", there, FIFO(40), permits);
}

static uint64_t permitted(void)
{
    start(worker);
    burn(100 * US);
    const uint64_t from = now();
    close(open(name, O_RDONLY | O_DIRECTORY));
    return worker->until - from;
}

static void notifies(struct helper *self)
{
    struct seccomp_notif request = { 0 };
    need(ioctl(supervisor, SECCOMP_IOCTL_NOTIF_RECV, &request), "seccomp");
    self->from = now();
    burn(self->length);
    self->until = now();
    struct seccomp_notif_resp response = { .id = request.id, .val = 1 };
    ioctl(supervisor, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static void seccomp_prepare(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { 4, code };
    worker = helper("judge", there, FIFO(40), notifies);
    supervisor = need((int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program),
    "seccomp");
}

static uint64_t judged(void)
{
    start(worker);
    burn(100 * US);
    const uint64_t from = now();
    syscall(SYS_getpgid, 0);
    return worker->until - from;
}

/* A debugger that interrupts the victim. */
static int command[2];

static void debug_prepare(void)
{
    need(pipe(command), "pipe");
    const pid_t tid = gettid();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (need(fork(), "fork"))
        return;
    char order;
    pthread_setname_np(pthread_self(), "debugger");
    close(command[1]);
    stay_on(0, there);
    be(FIFO(60));
    need((int)ptrace(PTRACE_SEIZE, tid, 0, 0), "ptrace");
    while (read(command[0], &order, 1) == 1) {
        ptrace(PTRACE_INTERRUPT, tid, 0, 0);
        waitpid(tid, NULL, __WALL);
        burn(amount);
        ptrace(PTRACE_CONT, tid, 0, 0);
    }
    _exit(0);
}

static uint64_t debugged(void)
{
    (void)!write(command[1], "x", 1);
    return gaps(500 * US);
}

/* A grace period of RCU. */
static uint64_t grace(void)
{
    const uint64_t from = now();
    need((int)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0), "membarrier");
    return now() - from;
}

/* The waker has used up the quota of its group; short turns of another thread come in between. */
static char group[128], path[192];
static struct helper *second;
static sem_t opened;

static void limited(struct helper *self)
{
    self->from = now();
    burn(self->length);
    self->until = now();
    sem_post(&opened);
}

static void brief(struct helper *self)
{
    self->from = now();
    for (int i = 0; i < 12; i++) {
        rest_until(now() + 3 * MS);
        burn(100 * US);
    }
    self->until = now();
}

static void limited_prepare(void)
{
    char tid[16];
    snprintf(group, sizeof group, "/sys/fs/cgroup/cpu/trials-%d", getpid());
    directory(group);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", group);
    write_file(path, "50000");
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", group);
    write_file(path, "10000");
    worker = helper("limited", here, FAIR(0), limited);
    worker->length = 25 * MS;
    snprintf(path, sizeof path, "%s/tasks", group);
    snprintf(tid, sizeof tid, "%d", worker->tid);
    write_file(path, tid);
    sem_init(&opened, 0, 0);
}

static void limited_beside(void)
{
    limited_prepare();
    second = helper("brief", here, FAIR(0), brief);
}

static void settle(void)
{
    rest_until(now() + 60 * MS);
}

static uint64_t waits_for_limited(void)
{
    if (second)
        start(second);
    start(worker);
    const uint64_t from = now();
    while (sem_wait(&opened))
        ;
    return worker->until - from;
}

/* A timer with much slack. */
static uint64_t slack(void)
{
    need(prctl(PR_SET_TIMERSLACK, 3 * MS), "PR_SET_TIMERSLACK");
    const uint64_t due = now() + 300 * US;
    rest_until(due);
    const uint64_t late = now() - due;
    prctl(PR_SET_TIMERSLACK, 1000);
    return late;
}

const struct kind storing[] = {
    { .name = "major_faults", .expect = "kind=blocked|page_fault magnitude=none", .prepare = mapped_prepare,
      .plant = major_faults },
    { .name = "direct_read", .expect = "kind=blocked|syscall call=pread64 magnitude=none",
      .prepare = direct_prepare, .plant = direct },
    { .name = "uncached_read", .expect = "kind=blocked|syscall call=pread64 magnitude=none",
      .prepare = buffered_prepare,
      .before = drop, .plant = direct },
    { .name = "asynchronous_read", .expect = "kind=blocked|syscall call=io_getevents|io_submit magnitude=none",
      .prepare = aio_prepare,
      .plant = asynchronous },
    { .name = "disk_interrupts", .expect = "kind=irq|softirq|vector magnitude=none", .prepare = interrupts_prepare,
      .plant = interrupted, .busy = 6 * MS },
    { .name = "userfault", .expect = "kind=blocked fault=true by=pager", .prepare = fault_prepare, .before = page_gone,
      .plant = paged },
    { .name = "permission", .expect = "kind=blocked call=openat by=permitter", .prepare = permission_prepare,
      .plant = permitted },
    { .name = "seccomp", .expect = "kind=blocked by=judge", .prepare = seccomp_prepare, .plant = judged },
    { .name = "debugger", .expect = "kind=blocked state=t by=debugger", .prepare = debug_prepare, .plant = debugged,
      .busy = 1 * MS },
    { .name = "grace_period", .expect = "kind=blocked call=membarrier", .plant = grace },
    { .name = "limited_waker", .expect = "kind=blocked call=futex by=limited throttled=1", .prepare = limited_prepare,
      .before = settle, .plant = waits_for_limited, .rounds = 6 },
    { .name = "limited_beside", .expect = "kind=blocked call=futex by=limited throttled=1", .prepare = limited_beside,
      .before = settle, .plant = waits_for_limited, .rounds = 6 },
    { .name = "slack", .expect = "kind=late_timer slack=true", .plant = slack, .victim = { SCHED_OTHER, -10 } },
    { 0 },
};
