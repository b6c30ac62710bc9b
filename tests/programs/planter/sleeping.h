/* Kinds in which the victim sleeps: locks, messages, files, timers. */
#include "common.h"
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/userfaultfd.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/timerfd.h>

/* Locks. */

static int take_mutex(void *mutex)
{
    return pthread_mutex_lock(mutex);
}

static int release_mutex(void *mutex)
{
    return pthread_mutex_unlock(mutex);
}

static int take_to_read(void *lock)
{
    return pthread_rwlock_rdlock(lock);
}

static int take_to_write(void *lock)
{
    return pthread_rwlock_wrlock(lock);
}

static int release_shared(void *lock)
{
    return pthread_rwlock_unlock(lock);
}

static pthread_mutex_t plain_mutex = PTHREAD_MUTEX_INITIALIZER, lending_mutex;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static struct lock plain_lock = { take_mutex, release_mutex, &plain_mutex };
static struct lock lending_lock = { take_mutex, release_mutex, &lending_mutex };
static struct lock read_lock = { take_to_read, release_shared, &shared };
static struct lock write_lock = { take_to_write, release_shared, &shared };

static void make_lending_lock(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&lending_mutex, &attributes);
}

static long takes_plain(void)
{
    return takes(&plain_lock);
}

static long takes_lending(void)
{
    return takes(&lending_lock);
}

static long takes_to_write(void)
{
    return takes(&write_lock);
}

static sem_t third_asked;

static void *goes_between(void *unused)
{
    for (;;) {
        sem_wait(&third_asked);
        measured = spin(2 * MS);
    }
    return unused;
}

static void start_third(void)
{
    start("third", goes_between, NULL, BETWEEN, cpu);
}

/* The holder has the victim's CPU, and a third thread preempts it. */
static long takes_inverted(void)
{
    ask();
    sem_wait(&answered);
    sem_post(&third_asked);
    const long begin = now();
    pthread_mutex_lock(&plain_mutex);
    const long end = now();
    pthread_mutex_unlock(&plain_mutex);
    return end - begin;
}

/* Other waits on futexes. */

static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static int is_asked;

static void signal_condition(void)
{
    pthread_mutex_lock(&plain_mutex);
    is_asked = 1;
    pthread_mutex_unlock(&plain_mutex);
    pthread_cond_signal(&condition);
}

static struct work before_condition = { .end = signal_condition };

static long waits_for_condition(void)
{
    ask();
    pthread_mutex_lock(&plain_mutex);
    while (!is_asked)
        pthread_cond_wait(&condition, &plain_mutex);
    is_asked = 0;
    pthread_mutex_unlock(&plain_mutex);
    return measured;
}

static void make_barrier(void)
{
    pthread_barrier_init(&barrier, NULL, 2);
}

static void wait_at_barrier(void)
{
    pthread_barrier_wait(&barrier);
}

static struct work before_barrier = { .end = wait_at_barrier };

static long waits_at_barrier(void)
{
    ask();
    pthread_barrier_wait(&barrier);
    return measured;
}

static void post(void)
{
    sem_post(&answered);
}

static struct work before_post = { .end = post };

static long waits_for_semaphore(void)
{
    ask();
    sem_wait(&answered);
    return measured;
}

static void *ends_soon(void *unused)
{
    measured = spin(3 * MS);
    return unused;
}

static long joins(void)
{
    pthread_join(start("worker", ends_soon, NULL, BELOW, other_cpu), NULL);
    return measured;
}

static long waits_for_child(void)
{
    const pid_t child = fork_bare();
    if (child == 0) {
        prctl(PR_SET_NAME, "child");
        spin(3 * MS);
        _exit(0);
    }
    const long begin = now();
    waitpid(child, NULL, 0);
    return now() - begin;
}

static void block_signal(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

static void signal_victim(void)
{
    pthread_kill(victim, SIGUSR2);
}

static struct work before_signal = { .end = signal_victim };

static long waits_for_signal(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    ask();
    sigwaitinfo(&signals, NULL);
    return measured;
}

/* Messages. */

static void make_pipe(void)
{
    if (pipe(ends) != 0)
        refused("a pipe");
}

static void make_socket(void)
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        refused("a socket");
}

static void make_eventfd(void)
{
    ends[0] = ends[1] = eventfd(0, 0);
}

static void write_one(void)
{
    const uint64_t one = 1;
    if (write(ends[1], &one, sizeof one) < 0)
        exit(2);
}

static struct work before_write = { .end = write_one };

/* The timer expires before the victim has left its CPU. */
static void hardly_sleep(void)
{
    const struct timespec none = { 0, 1500 };
    for (int number = 0; number < 20; number++)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &none, NULL);
}

static struct work before_late_write = { .begin = hardly_sleep, .end = write_one };

/* Connections over the loopback device. */

static struct sockaddr_in address = { .sin_family = AF_INET };
static int listener;

static void listens(void)
{
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0
        || getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        refused("a connection over the loopback device");
}

/* Time at which the worker had connected, if it has. */
static volatile long connected;

static void open_client(void)
{
    connected = 0;
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
}

static void connects(void)
{
    if (connect(ends[1], (struct sockaddr *)&address, sizeof address) != 0)
        refused("a connection over the loopback device");
    connected = now();
}

static void connect_ends(void)
{
    listens();
    open_client();
    connects();
    ends[0] = accept(listener, NULL, NULL);
}

static struct work before_connection = { .begin = open_client, .end = connects };

static long accepts(void)
{
    ask();
    const int accepted = accept(listener, NULL, NULL);
    /* The worker is at work until it has connected, which takes a tenth of a millisecond and more; or it still is. */
    const long end = now(), of_worker = connected;
    close(accepted);
    close(ends[1]);
    return (of_worker && of_worker < end ? of_worker : end) - awaited_since();
}

static long reads(void)
{
    uint64_t number;
    ask();
    if (read(ends[0], &number, sizeof number) < 0)
        exit(2);
    return measured;
}

static void receive(void)
{
    uint64_t number;
    if (read(ends[0], &number, sizeof number) < 0)
        exit(2);
}

static long polls(void)
{
    struct pollfd end = { .fd = ends[0], .events = POLLIN };
    ask();
    poll(&end, 1, -1);
    receive();
    return measured;
}

static int epoll;

static void make_epoll(void)
{
    struct epoll_event event = { .events = EPOLLIN };
    make_pipe();
    epoll = epoll_create1(0);
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) != 0)
        refused("epoll");
}

static long polls_many(void)
{
    struct epoll_event event;
    ask();
    epoll_wait(epoll, &event, 1, -1);
    receive();
    return measured;
}

/* As many bytes as a pipe holds, and those that have to wait. */
enum { FULL = 64 << 10, MORE = 4 << 10 };

/* The first bytes that it reads make room for those that wait. */
static void empty(void)
{
    static char bytes[MORE];
    for (long left = FULL + MORE; left > 0;) {
        const long length = read(ends[0], bytes, MORE);
        if (length <= 0)
            exit(2);
        left -= length;
    }
}

static struct work before_read = { .end = empty };

static long fills(void)
{
    static const char bytes[FULL];
    if (write(ends[1], bytes, FULL) != FULL)
        exit(2);
    ask();
    if (write(ends[1], bytes, MORE) != MORE)
        exit(2);
    return measured;
}

static mqd_t queue;

static void make_queue(void)
{
    char name[32];
    struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 8 };
    snprintf(name, sizeof name, "/sordino-planter-%d", getpid());
    queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    if (queue < 0)
        refused("a message queue");
    mq_unlink(name);
}

static void send_message(void)
{
    mq_send(queue, "message", 8, 0);
}

static struct work before_message = { .end = send_message };

static long receives_message(void)
{
    char message[8];
    ask();
    if (mq_receive(queue, message, sizeof message, NULL) < 0)
        exit(2);
    return measured;
}

enum { STAGES = 3 };
static int pipes[STAGES + 1][2];

static void *passes_on(void *number)
{
    const long stage = (long)number;
    char byte;
    for (;;) {
        if (read(pipes[stage][0], &byte, 1) != 1)
            exit(2);
        if (stage == 1)
            measured = spin(3 * MS);
        else
            spin(MS / 10);
        if (write(pipes[stage + 1][1], &byte, 1) != 1)
            exit(2);
    }
    return NULL;
}

static void start_stages(void)
{
    static const char *names[STAGES] = { "first", "second", "third" };
    for (long stage = 0; stage <= STAGES; stage++)
        if (pipe(pipes[stage]) != 0)
            refused("a pipe");
    for (long stage = 0; stage < STAGES; stage++)
        start(names[stage], passes_on, (void *)stage, BELOW, other_cpu);
}

static long chain(void)
{
    char byte = 0;
    if (write(pipes[0][1], &byte, 1) != 1 || read(pipes[STAGES][0], &byte, 1) != 1)
        exit(2);
    return measured;
}

/* A separate process, because a stop applies to all threads of one. It ends when this one's pipe closes. */
static void start_stopper(void)
{
    const pid_t pid = getpid();
    char byte;
    make_pipe();
    if (fork_bare() != 0)
        return;
    close(ends[1]);
    while (read(ends[0], &byte, 1) == 1) {
        kill(pid, SIGSTOP);
        rest(30 * MS);
        kill(pid, SIGCONT);
    }
    _exit(0);
}

static long stopped(void)
{
    if (write(ends[1], "", 1) != 1)
        exit(2);
    return longest_stop(1000 * MS, 10 * MS);
}

/* Files. */

enum { FILE_SIZE = 16 << 20, STEP = 1 << 20, BLOCK = 256 << 10 };
static const char *const FILE_NAME = "planter.data";
static char *mapped;
static int file;

static void close_file(void)
{
    if (mapped)
        munmap(mapped, FILE_SIZE);
    if (file)
        close(file);
    unlink(FILE_NAME);
}

static void write_file(void)
{
    static const char bytes[BLOCK];
    close_file();
    struct statfs system;
    file = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || fstatfs(file, &system) != 0 || posix_fallocate(file, 0, FILE_SIZE) != 0)
        refused(FILE_NAME);
    errno = ENODEV;
    if (system.f_type == TMPFS_MAGIC)
        refused("a disk: files are in memory here");
    for (long place = 0; place < FILE_SIZE; place += STEP)
        if (pwrite(file, bytes, BLOCK, place) != BLOCK)
            refused(FILE_NAME);
}

static void map_file(void)
{
    write_file();
    fsync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    mapped = mmap(NULL, FILE_SIZE, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        refused(FILE_NAME);
    madvise(mapped, FILE_SIZE, MADV_RANDOM);
}

static long reads_pages(void)
{
    volatile char byte;
    const long begin = now();
    for (long place = 0; place < FILE_SIZE; place += STEP)
        byte = mapped[place];
    const long end = now();
    (void)byte;
    return end - begin;
}

static long reads_directly(void)
{
    static char bytes[BLOCK] __attribute__((aligned(4096)));
    const long begin = now();
    const int direct = open(FILE_NAME, O_RDONLY | O_DIRECT);
    for (long place = 0; place < FILE_SIZE; place += STEP)
        if (direct < 0 || pread(direct, bytes, BLOCK, place) != BLOCK)
            refused("O_DIRECT");
    close(direct);
    return now() - begin;
}

static void write_through(void)
{
    write_file();
    fsync(file);
}

static long syncs(void)
{
    const long begin = now();
    fsync(file);
    return now() - begin;
}

/* Two descriptors, because the lock belongs to a descriptor, not to the process. */
static int own_file, holders_file;

static int take_file(void *descriptor)
{
    return flock(*(int *)descriptor, LOCK_EX);
}

static int release_file(void *descriptor)
{
    return flock(*(int *)descriptor, LOCK_UN);
}

static struct lock own_file_lock = { take_file, release_file, &own_file };
static struct lock holders_file_lock = { take_file, release_file, &holders_file };

static void open_files(void)
{
    own_file = open(FILE_NAME, O_RDWR | O_CREAT, 0600);
    holders_file = open(FILE_NAME, O_RDWR);
    if (own_file < 0 || holders_file < 0)
        refused(FILE_NAME);
}

static long takes_file(void)
{
    return takes(&own_file_lock);
}

/* Pages that another thread provides. */

static int faults_here;
static char *brought;

static void *brings_pages(void *unused)
{
    struct uffd_msg message;
    while (read(faults_here, &message, sizeof message) == sizeof message) {
        struct uffdio_zeropage page = { .range = { .start = (unsigned long)brought, .len = 4096 } };
        measured = spin(3 * MS);
        if (ioctl(faults_here, UFFDIO_ZEROPAGE, &page) != 0)
            exit(2);
    }
    return unused;
}

static void await_pages(void)
{
    struct uffdio_api api = { .api = UFFD_API };
    struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
    faults_here = syscall(SYS_userfaultfd, O_CLOEXEC);
    brought = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    range.range.start = (unsigned long)brought;
    range.range.len = 4096;
    if (faults_here < 0 || ioctl(faults_here, UFFDIO_API, &api) != 0
        || ioctl(faults_here, UFFDIO_REGISTER, &range) != 0)
        refused("userfaultfd");
}

static void drop_page(void)
{
    madvise(brought, 4096, MADV_DONTNEED);
}

static long awaits_page(void)
{
    brought[0] = 1;
    return measured;
}

/* Time. */

static long oversleeps(void)
{
    long late = 0;
    prctl(PR_SET_TIMERSLACK, 8 * MS);
    /* Another timer's interrupt may come at once. */
    for (int tries = 0; tries < 20 && late < MS; tries++) {
        const long begin = now();
        rest(MS / 20);
        late = now() - begin - MS / 20;
    }
    prctl(PR_SET_TIMERSLACK, 0);
    return late;
}

static long sleeps(void)
{
    const long begin = now();
    rest(4 * MS);
    return now() - begin;
}

static long reads_timer(void)
{
    const struct itimerspec later = { .it_value = { .tv_nsec = 4 * MS } };
    const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    uint64_t times;
    timerfd_settime(timer, 0, &later, NULL);
    const long begin = now();
    if (read(timer, &times, sizeof times) < 0)
        refused("a timer");
    const long end = now();
    close(timer);
    return end - begin;
}
