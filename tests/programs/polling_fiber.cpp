// The third figure of Danjean, Namyst and Wacrenier (2005): twenty fibers work, and a daemon polls its socket and
// yields, on two threads. polling_fiber ROUNDS
//
// The threads have a real-time priority, so that no other program takes their CPUs, and the sender a higher one.
#include <sordino/boost_fiber.hpp>

#include <boost/fiber/all.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

SORDINO_TRACEPOINT(net, sent, SORDINO_INFO, (u32, id))
SORDINO_TRACEPOINT(net, received, SORDINO_INFO, (u32, id))

namespace {

using algorithm = sordino::boost_fiber::traced<boost::fibers::algo::shared_work>;

constexpr int WORKERS = 20;
constexpr long long BURST = 200000; // ns

int sockets[2];
std::atomic<int> working{WORKERS};
std::atomic<bool> is_ready{false}, is_sender_ready{false}, is_served{false};

// No function that has the address of a thread's variable may go on on another thread.
__attribute__((noinline)) long long thread_time()
{
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

void burn()
{
    for (const long long end = thread_time() + BURST; thread_time() < end;)
        for (volatile int i = 0; i < 1000; i = i + 1) {
        }
}

void name(const std::string &name)
{
    boost::this_fiber::properties<sordino::boost_fiber::named>().name(name);
}

void be_real_time(int cpu, int priority)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    const sched_param parameters = {priority};
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0 || sched_setscheduler(0, SCHED_FIFO, &parameters) != 0)
        std::perror("real-time priority");
}

void work(int index, int rounds)
{
    name("work/" + std::to_string(index));
    for (int round = 0; round < rounds; round++) {
        burn();
        boost::this_fiber::yield();
    }
    working--;
}

void serve()
{
    name("daemon");
    is_served = true;
    while (working > 0) {
        std::uint32_t id;
        if (recv(sockets[0], &id, sizeof id, MSG_DONTWAIT) == sizeof id)
            sordino_tracepoint(net, received, id);
        boost::this_fiber::yield();
    }
}

void send_messages()
{
    be_real_time(0, 20);
    is_sender_ready = true;
    while (!is_served)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    for (std::uint32_t id = 0; working > 0; id++) {
        std::this_thread::sleep_for(std::chrono::microseconds(3700));
        sordino_tracepoint(net, sent, id);
        if (send(sockets[1], &id, sizeof id, 0) != sizeof id)
            std::perror("send");
    }
}

} // namespace

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) != 0) {
        std::perror("socketpair");
        return 1;
    }
    boost::fibers::mutex mutex;
    boost::fibers::condition_variable done;
    bool has_ended = false;
    std::thread other([&] {
        boost::fibers::use_scheduling_algorithm<algorithm>();
        is_ready = true;
        be_real_time(0, 10);
        std::unique_lock<boost::fibers::mutex> lock(mutex);
        done.wait(lock, [&] { return has_ended; });
    });
    std::thread sender(send_messages);
    while (!is_ready || !is_sender_ready)
        std::this_thread::yield();
    boost::fibers::use_scheduling_algorithm<algorithm>();
    be_real_time(1, 10);
    std::vector<boost::fibers::fiber> fibers;
    fibers.emplace_back(serve);
    for (int index = 0; index < WORKERS; index++)
        fibers.emplace_back(work, index, rounds);
    for (auto &fiber : fibers)
        fiber.join();
    {
        const std::lock_guard<boost::fibers::mutex> lock(mutex);
        has_ended = true;
    }
    done.notify_all();
    other.join();
    sender.join();
    return 0;
}
