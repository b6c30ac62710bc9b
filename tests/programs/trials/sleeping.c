/* The victim sleeps until a helper that worked wakes it: locks, queues, files and processes. */
#include "trial.h"
#include <arpa/inet.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

/* What the helper does at its begin and its end, and how the victim sleeps. */
static void (*take)(void), (*wake)(void), (*sleep_on)(void);
static bool waits_for_taking;

static void holder(struct helper *self)
{
    if (take)
        take();
    self->from = now();
    self->ready = true;
    burn(self->length);
    self->until = now();
    wake();
}

static uint64_t sleeps(void)
{
    start(worker);
    while (waits_for_taking && !worker->ready)
        ;
    const uint64_t from = now();
    sleep_on();
    return worker->until - from;
}

static void by_holder(void)
{
    worker = helper("holder", there, FIFO(40), holder);
    waits_for_taking = take != NULL;
}

#define SLEEP(name, takes, wakes, sleeping, prepare)                                                                  \
    static void name##_prepare(void)                                                                                  \
    {                                                                                                                 \
        take = takes, wake = wakes, sleep_on = sleeping;                                                              \
        prepare;                                                                                                      \
        by_holder();                                                                                                  \
    }

/* Locks. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, heir;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }
static void pass(void) { lock(), unlock(); }
static void inherit(void) { pthread_mutex_lock(&heir); }
static void bequeath(void) { pthread_mutex_unlock(&heir); }
static void pass_heir(void) { inherit(), bequeath(); }
static void read_lock(void) { pthread_rwlock_rdlock(&shared); }
static void write_lock(void) { pthread_rwlock_wrlock(&shared); }
static void rw_unlock(void) { pthread_rwlock_unlock(&shared); }
static void pass_write(void) { write_lock(), rw_unlock(); }
static void pass_read(void) { read_lock(), rw_unlock(); }

static void heir_prepare(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&heir, &attributes);
}

SLEEP(mutex, lock, unlock, pass, )
SLEEP(heir_mutex, inherit, bequeath, pass_heir, heir_prepare())
SLEEP(writer, read_lock, rw_unlock, pass_write, )
SLEEP(reader, write_lock, rw_unlock, pass_read, )

/* Conditions, semaphores, futexes. */
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static bool holds;
static sem_t semaphore;
static _Atomic uint32_t word;
static void signals(void) { lock(), holds = true, pthread_cond_signal(&condition), unlock(); }
static void until_holds(void)
{
    lock();
    while (!holds)
        pthread_cond_wait(&condition, &mutex);
    holds = false;
    unlock();
}
static void posts(void) { sem_post(&semaphore); }
static void waits(void)
{
    const struct timespec late = { 4000000000, 0 };
    sem_timedwait(&semaphore, &late);
}
static void changes_word(void)
{
    word = 1;
    syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 9, NULL, NULL, 4);
}
static void word_changes(void)
{
    while (!word)
        syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, 4);
    word = 0;
}
SLEEP(condvar, NULL, signals, until_holds, )
SLEEP(semaphore, NULL, posts, waits, sem_init(&semaphore, 0, 0))
SLEEP(futex_bits, NULL, changes_word, word_changes, )

/* Descriptors: the helper writes to `out`, the victim waits for `in`. */
static int in, out;
static void writes(void) { (void)!write(out, "12345678", 8); }
static void reads(void) { char text[64]; (void)!read(in, text, sizeof text); }
static void polls(void) { struct pollfd each = { in, POLLIN, 0 }; poll(&each, 1, -1), reads(); }
static void selects(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(in, &set);
    select(in + 1, &set, NULL, NULL, NULL), reads();
}
static int many;
static void epolls(void) { struct epoll_event each; epoll_wait(many, &each, 1, -1), reads(); }
static void pipes(void) { int ends[2]; need(pipe(ends), "pipe"), in = ends[0], out = ends[1]; }
static void event(void) { in = out = need(eventfd(0, 0), "eventfd"); }
static void pairs(void) { int ends[2]; need(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), "pair"), in = ends[0],
    out = ends[1]; }
static void epoll(void)
{
    struct epoll_event each = { .events = EPOLLIN };
    event();
    need(epoll_ctl(many = epoll_create1(0), EPOLL_CTL_ADD, in, &each), "epoll");
}
static void tty(void)
{
    out = need(posix_openpt(O_RDWR | O_NOCTTY), "a pseudo-terminal");
    need(grantpt(out) | unlockpt(out), "a pseudo-terminal");
    in = need(open(ptsname(out), O_RDWR | O_NOCTTY), "a pseudo-terminal");
}
static void line(void) { (void)!write(out, "1234567\n", 8); }
static struct sockaddr_in port;
static void listens(void)
{
    socklen_t length = sizeof port;
    in = socket(AF_INET, SOCK_STREAM, 0);
    port = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    need(bind(in, (struct sockaddr *)&port, length), "bind");
    need(listen(in, 8), "listen");
    getsockname(in, (struct sockaddr *)&port, &length);
}
static void connects(void)
{
    out = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(out, (struct sockaddr *)&port, sizeof port), "connect");
    close(out);
}
static void accepts(void) { close(accept(in, NULL, NULL)); }
static void connected(void)
{
    listens();
    out = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(out, (struct sockaddr *)&port, sizeof port), "connect");
    in = accept(in, NULL, NULL);
}
static char name[64];
static void watches(void)
{
    snprintf(name, sizeof name, "/tmp/trials-%d", getpid());
    directory(name);
    need(inotify_add_watch(in = inotify_init(), name, IN_ATTRIB), "inotify");
}
static void changes(void) { chmod(name, 0700); }
static void drains(void) { char events[4096]; (void)!read(in, events, sizeof events); }
static void signal_file(void)
{
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    in = signalfd(-1, &set, 0);
}
static void kills(void) { syscall(SYS_tgkill, getpid(), victim_tid, SIGUSR1); }
static void signal_read(void) { char info[128]; (void)!read(in, info, sizeof info); }
static void sigwaits(void) { sigset_t set; int number; sigemptyset(&set), sigaddset(&set, SIGUSR1), sigwait(&set,
    &number); }
SLEEP(pipe, NULL, writes, reads, pipes())
SLEEP(event, NULL, writes, reads, event())
SLEEP(pair, NULL, writes, reads, pairs())
SLEEP(poll, NULL, writes, polls, pipes())
SLEEP(select, NULL, writes, selects, pairs())
SLEEP(epoll, NULL, writes, epolls, epoll())
SLEEP(terminal, NULL, line, reads, tty())
SLEEP(accept, NULL, connects, accepts, listens())
SLEEP(stream, NULL, writes, reads, connected())
SLEEP(inotify, NULL, changes, drains, watches())
SLEEP(signal_file, NULL, kills, signal_read, signal_file())
SLEEP(sigwait, NULL, kills, sigwaits, signal_file())

/* Queues of System V and POSIX, files' locks. */
static int queue;
static void sends(void) { long message[2] = { 1, 1 }; msgsnd(queue, message, 8, 0); }
static void receives(void) { long message[2]; msgrcv(queue, message, 8, 0, 0); }
static void sysv(void) { queue = need(msgget(IPC_PRIVATE, 0600), "msgget"); }
static void ups(void) { struct sembuf up = { 0, 1, 0 }; semop(queue, &up, 1); }
static void downs(void) { struct sembuf down = { 0, -1, 0 }; semop(queue, &down, 1); }
static void sysv_sem(void) { queue = need(semget(IPC_PRIVATE, 1, 0600), "semget"); }
static void mq_sends(void) { mq_send(queue, "x", 1, 0); }
static void mq_receives(void) { char text[16]; mq_receive(queue, text, sizeof text, NULL); }
static void posix(void)
{
    struct mq_attr attributes = { .mq_maxmsg = 4, .mq_msgsize = 16 };
    snprintf(name, sizeof name, "/trials-%d", getpid());
    queue = need(mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes), "mq_open");
    mq_unlink(name);
}
static int file;
static void record(int descriptor, short type)
{
    struct flock part = { .l_type = type, .l_whence = SEEK_SET, .l_len = 8 };
    need(fcntl(descriptor, F_OFD_SETLKW, &part), "F_OFD_SETLKW");
}
static void files(void)
{
    snprintf(name, sizeof name, "/tmp/trials-%d.lock", getpid());
    file = need(open(name, O_RDWR | O_CREAT, 0600), name);
    out = open(name, O_RDWR);
    unlink(name);
}
static void record_lock(void) { record(out, F_WRLCK); }
static void record_unlock(void) { record(out, F_UNLCK); }
static void record_pass(void) { record(file, F_WRLCK), record(file, F_UNLCK); }
SLEEP(message, NULL, sends, receives, sysv())
SLEEP(sem_array, NULL, ups, downs, sysv_sem())
SLEEP(posix_queue, NULL, mq_sends, mq_receives, posix())
SLEEP(record_lock, record_lock, record_unlock, record_pass, files())

/* A named pipe's other end, and a lease on a file. */
static void fifo(void)
{
    snprintf(name, sizeof name, "/tmp/trials-%d.fifo", getpid());
    need(mkfifo(name, 0600), name);
    removed_at_end(name);
}
static void opens(void) { close(open(name, O_WRONLY)); }
static void opened(void) { close(open(name, O_RDONLY)); }
SLEEP(fifo, NULL, opens, opened, fifo())

/* Processes. */
static pid_t child;
static int command[2];

static void child_process(void)
{
    need(pipe(command), "pipe");
}

static uint64_t waits_for_child(void)
{
    child = fork();
    if (!child) {
        pthread_setname_np(pthread_self(), "child");
        stay_on(0, there);
        be(FIFO(40));
        burn(amount);
        _exit(0);
    }
    const uint64_t from = now();
    waitpid(child, NULL, 0);
    const uint64_t length = now() - from;
    return length;
}

static uint64_t spawns(void)
{
    const uint64_t from = now();
    child = vfork();
    if (!child) {
        const uint64_t until = now() + amount;
        while (now() < until)
            ;
        _exit(0);
    }
    return now() - from;
}

static void reap(void)
{
    waitpid(child, NULL, 0);
}

/* Chains. first -> second -> the victim; a hog keeps the second from running. */
static struct helper *first, *middle, *hog;
static int one[2], other[2];

static void first_works(struct helper *self)
{
    burst(self);
    (void)!write(one[1], "x", 1);
}

static void middle_passes(struct helper *self)
{
    char text;
    self->from = self->until = now();
    (void)!read(one[0], &text, 1);
    (void)!write(other[1], "x", 1);
}

static void chain_prepare(void)
{
    need(pipe(one) | socketpair(AF_UNIX, SOCK_STREAM, 0, other), "pipe");
    first = helper("first", there, FIFO(40), first_works);
    middle = helper("middle", there, FIFO(45), middle_passes);
}

static uint64_t chained(void)
{
    char text;
    start(middle);
    start(first);
    const uint64_t from = now();
    (void)!read(other[0], &text, 1);
    return first->until - from;
}

static void hogged_prepare(void)
{
    chain_prepare();
    hog = helper("hog", there, FIFO(60), burst);
    first->length = 200 * US;
}

static uint64_t hogged(void)
{
    char text;
    start(middle);
    rest_until(now() + 200 * US);
    hog->due = now() + 400 * US;
    start(first);
    start(hog);
    const uint64_t from = now();
    first->length = 600 * US;
    (void)!read(other[0], &text, 1);
    (void)from;
    return hog->until - from;
}

/* Inversion: a low thread on the victim's CPU has the lock; a middle one keeps it from running. */
static void low_holds(struct helper *self)
{
    lock();
    self->from = now();
    self->ready = true;
    burn(self->length);
    self->until = now();
    unlock();
}

static void inversion_prepare(void)
{
    first = helper("low", here, FIFO(20), low_holds);
    hog = helper("hog", here, FIFO(30), burst);
    first->length = 600 * US;
}

static uint64_t inverted(void)
{
    start(first);
    rest_until(now() + 200 * US);
    hog->due = now() + 200 * US;
    start(hog);
    const uint64_t from = now();
    pass();
    return first->until - from;
}

/* Stops. */
static void stopper_prepare(void (*stop)(void), void (*go)(void))
{
    need(pipe(command), "pipe");
    child = need(fork(), "fork");
    if (child)
        return;
    char order;
    pthread_setname_np(pthread_self(), "stopper");
    close(command[1]);
    stay_on(0, there);
    be(FIFO(60));
    while (read(command[0], &order, 1) == 1) {
        stop();
        rest_until(now() + amount);
        go();
    }
    _exit(0);
}
static void stops(void) { kill(getppid(), SIGSTOP); }
static void continues(void) { kill(getppid(), SIGCONT); }
static void stop_prepare(void) { stopper_prepare(stops, continues); }
static uint64_t stopped(void)
{
    (void)!write(command[1], "x", 1);
    return gaps(500 * US);
}

static char group[96], state[128];
static void freezes(void) { write_file(state, "FROZEN"); }
static void thaws(void) { write_file(state, "THAWED"); }
static void freeze_prepare(void)
{
    char tid[16], tasks[128];
    snprintf(group, sizeof group, "/sys/fs/cgroup/freezer/trials-%d", getpid());
    directory(group);
    snprintf(state, sizeof state, "%s/freezer.state", group);
    snprintf(tasks, sizeof tasks, "%s/tasks", group);
    stopper_prepare(freezes, thaws);
    snprintf(tid, sizeof tid, "%d", gettid());
    write_file(tasks, tid);
}

static uint64_t longer(void)
{
    rest_until(now() + amount);
    return amount;
}

static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;
static void never_prepare(void) { pthread_mutex_lock(&never); }
static uint64_t gives_up(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_nsec += (long)amount;
    if (time.tv_nsec >= 1000000000)
        time.tv_sec++, time.tv_nsec -= 1000000000;
    pthread_mutex_clocklock(&never, CLOCK_MONOTONIC, &time);
    return amount;
}

#define BY_HOLDER(kind, calls)                                                                                        \
    {                                                                                                                 \
        .name = #kind, .expect = "kind=blocked call=" calls " by=holder", .prepare = kind##_prepare, .plant = sleeps  \
    }

const struct kind sleeping[] = {
    BY_HOLDER(mutex, "futex"),
    { .name = "heir_mutex", .expect = "kind=blocked|syscall call=futex", .prepare = heir_mutex_prepare,
      .plant = sleeps },
    BY_HOLDER(writer, "futex"),
    BY_HOLDER(reader, "futex"),
    BY_HOLDER(condvar, "futex"),
    BY_HOLDER(semaphore, "futex"),
    BY_HOLDER(futex_bits, "futex"),
    BY_HOLDER(pipe, "read"),
    BY_HOLDER(event, "read"),
    BY_HOLDER(pair, "read"),
    BY_HOLDER(poll, "poll"),
    BY_HOLDER(select, "select|pselect6"),
    BY_HOLDER(epoll, "epoll_wait"),
    BY_HOLDER(terminal, "read"),
    BY_HOLDER(accept, "accept|accept4"),
    BY_HOLDER(stream, "read"),
    BY_HOLDER(inotify, "read"),
    BY_HOLDER(signal_file, "read"),
    BY_HOLDER(sigwait, "rt_sigtimedwait"),
    BY_HOLDER(message, "msgrcv"),
    BY_HOLDER(sem_array, "semop|semtimedop"),
    BY_HOLDER(posix_queue, "mq_timedreceive"),
    BY_HOLDER(record_lock, "fcntl"),
    BY_HOLDER(fifo, "openat|open"),
    { .name = "child", .expect = "kind=blocked call=wait4 by=child", .prepare = child_process,
      .plant = waits_for_child },
    { .name = "vfork", .expect = "kind=blocked call=vfork", .plant = spawns, .after = reap },
    { .name = "chain", .expect = "kind=blocked call=read by=first", .prepare = chain_prepare, .plant = chained },
    { .name = "hogged_chain", .expect = "kind=blocked call=read by=hog", .prepare = hogged_prepare, .plant = hogged },
    { .name = "inversion", .expect = "kind=blocked call=futex by=hog", .prepare = inversion_prepare,
      .plant = inverted },
    { .name = "stop", .expect = "kind=blocked state=T by=stopper", .prepare = stop_prepare, .plant = stopped,
      .busy = 1 * MS },
    { .name = "freezer", .expect = "kind=blocked by=stopper", .prepare = freeze_prepare, .plant = stopped,
      .busy = 1 * MS },
    { .name = "long_sleep", .expect = "kind=blocked call=clock_nanosleep", .plant = longer },
    { .name = "timed_lock", .expect = "kind=blocked call=futex", .prepare = never_prepare, .plant = gives_up },
    { 0 },
};
