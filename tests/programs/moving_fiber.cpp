// The second figure of Danjean, Namyst and Wacrenier (2005): a fiber moves to another thread, and its thread to another
// CPU.
//
// Three fibers take turns on two threads, the first on CPU 1, the second on CPU 0. When the fiber "moving" has run on the
// first and comes to the second, it wakes a real-time thread, which takes CPU 0 and sends the fiber's thread to CPU 1.
// Prints the fiber's number and the CPU time that it has taken, by its threads' clocks, then both threads and that one.
#include <sordino/boost_fiber.hpp>

#include <boost/fiber/all.hpp>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

namespace {

using algorithm = sordino::boost_fiber::traced<boost::fibers::algo::shared_work>;

constexpr long long BURST = 300000; // ns

std::atomic<int> first{0}, second{0}, hog{0};
std::atomic<bool> is_ready{false}, has_gone_on{false}, has_ended{false};
sem_t wanted;
unsigned long long fiber_number;
long long fiber_time;

// No function that has the address of a thread's variable may go on on another thread.
__attribute__((noinline)) long long thread_time()
{
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

__attribute__((noinline)) int thread_id()
{
    return static_cast<int>(gettid());
}

void burn()
{
    for (const long long end = thread_time() + BURST; thread_time() < end;)
        for (volatile int i = 0; i < 1000; i = i + 1) {
        }
}

void name(const char *name)
{
    boost::this_fiber::properties<sordino::boost_fiber::named>().name(name);
}

void pin(int thread, int cpu)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(thread, sizeof cpus, &cpus) != 0)
        std::perror("sched_setaffinity");
}

// Takes CPU 0 from the second thread until the fiber has gone on elsewhere.
void preempt()
{
    pin(0, 0);
    const sched_param priority = {50};
    if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
        std::perror("sched_setscheduler");
    hog = thread_id();
    while (sem_wait(&wanted) != 0) {
    }
    pin(second, 1);
    while (!has_gone_on) {
    }
}

void turn(long long &since)
{
    fiber_time += thread_time() - since;
    boost::this_fiber::yield();
    since = thread_time();
}

void move()
{
    long long since = thread_time();
    name("moving");
    fiber_number = sordino::boost_fiber::number();
    for (bool was_on_first = false; !was_on_first || thread_id() != second; turn(since)) {
        was_on_first |= thread_id() == first;
        burn();
    }
    burn();
    sem_post(&wanted);
    has_gone_on = true;
    burn();
    turn(since);
    fiber_time += thread_time() - since;
    has_ended = true;
}

void stay(const char *called)
{
    name(called);
    while (!has_ended) {
        burn();
        boost::this_fiber::yield();
    }
}

} // namespace

int main()
{
    sem_init(&wanted, 0, 0);
    first = thread_id();
    pin(0, 1);
    boost::fibers::mutex mutex;
    boost::fibers::condition_variable done;
    std::thread other([&] {
        second = thread_id();
        pin(0, 0);
        boost::fibers::use_scheduling_algorithm<algorithm>();
        is_ready = true;
        std::unique_lock<boost::fibers::mutex> lock(mutex);
        done.wait(lock, [] { return has_ended.load(); });
    });
    std::thread real_time(preempt);
    boost::fibers::use_scheduling_algorithm<algorithm>();
    while (!is_ready || hog == 0)
        std::this_thread::yield();
    boost::fibers::fiber fibers[] = {boost::fibers::fiber(move), boost::fibers::fiber(stay, "seven"),
        boost::fibers::fiber(stay, "eight")};
    for (auto &fiber : fibers)
        fiber.join();
    {
        const std::lock_guard<boost::fibers::mutex> lock(mutex);
    }
    done.notify_all();
    other.join();
    real_time.join();
    std::printf("%llu %lld %d %d %d\n", fiber_number, fiber_time, first.load(), second.load(), hog.load());
    return 0;
}
