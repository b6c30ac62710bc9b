// Fibers of Boost.Fiber that move between two threads, each with a name.
//
//     c++ -std=c++17 fibers.cpp -o fibers -pthread $(pkg-config --cflags --libs sordino) -lboost_fiber -lboost_context
//     sordino record -- ./fibers
//     sordino events
//
// Prints a line for each of its steps: the fiber's number, its name, the step and the thread.
#include <sordino/boost_fiber.hpp>

#include <boost/fiber/all.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

SORDINO_TRACEPOINT(work, begin, SORDINO_INFO, (u64, fiber))
SORDINO_TRACEPOINT(work, step, SORDINO_INFO, (u64, fiber), (u32, step))

namespace {

using algorithm = sordino::boost_fiber::traced<boost::fibers::algo::shared_work>;

boost::fibers::mutex shared;

struct Step {
    std::uint64_t fiber;
    std::string name;
    std::uint32_t number;
    int thread;
};

// Yields, sleeps, and waits for a mutex that its holder yields with.
void work(std::vector<Step> &log, std::uint32_t steps)
{
    const std::string name = boost::this_fiber::properties<sordino::boost_fiber::named>().name();
    for (std::uint32_t step = 0; step < steps; step++) {
        log.push_back({sordino::boost_fiber::number(), name, step, static_cast<int>(gettid())});
        sordino_tracepoint(work, step, sordino::boost_fiber::number(), step);
        if (step % 3 == 0) {
            boost::this_fiber::yield();
        } else if (step % 3 == 1) {
            boost::this_fiber::sleep_for(std::chrono::milliseconds(1));
        } else {
            const std::lock_guard<boost::fibers::mutex> lock(shared);
            boost::this_fiber::yield();
        }
    }
}

class Done {
public:
    void set()
    {
        {
            const std::lock_guard<boost::fibers::mutex> lock(mutex_);
            is_set_ = true;
        }
        condition_.notify_all();
    }

    void wait()
    {
        std::unique_lock<boost::fibers::mutex> lock(mutex_);
        condition_.wait(lock, [this] { return is_set_; });
    }

private:
    boost::fibers::mutex mutex_;
    boost::fibers::condition_variable condition_;
    bool is_set_ = false;
};

} // namespace

int main(int argc, char **argv)
{
    const auto steps = static_cast<std::uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 12);
    constexpr int count = 6;
    std::vector<std::vector<Step>> logs(count);
    Done done;
    std::atomic<bool> is_ready{false};
    std::thread other([&done, &is_ready] {
        boost::fibers::use_scheduling_algorithm<algorithm>();
        is_ready = true;
        done.wait();
    });
    boost::fibers::use_scheduling_algorithm<algorithm>();
    while (!is_ready) {
        std::this_thread::yield();
    }
    std::vector<boost::fibers::fiber> fibers;
    for (int index = 0; index < count; index++) {
        // The last one runs at once.
        const auto launch = index + 1 < count ? boost::fibers::launch::post : boost::fibers::launch::dispatch;
        fibers.emplace_back(launch, [&log = logs[index], index, steps] {
            sordino_tracepoint(work, begin, sordino::boost_fiber::number());
            boost::this_fiber::properties<sordino::boost_fiber::named>().name("worker " + std::to_string(index));
            work(log, steps);
        });
    }
    for (auto &fiber : fibers) {
        fiber.join();
    }
    done.set();
    other.join();
    for (const auto &log : logs) {
        for (const Step &step : log) {
            std::printf("%llu\t%s\t%u\t%d\n", static_cast<unsigned long long>(step.fiber), step.name.c_str(), step.number,
                step.thread);
        }
    }
}
