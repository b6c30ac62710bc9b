// Sumtime, a torture test for a library of fibers: sumtime CPU BURSTS
// Sums a range by a complete binary tree of fibers of Boost.Fiber, each of which creates two and waits for them, on one
// thread. The program makes, switches and ends fibers, and does next to nothing else. A burst is TREES such trees, one
// behind the other. Prints the nanoseconds of CPU time for each fiber, in the median burst.
//
// TRACER_SORDINO and TRACER_FUT have the library's scheduling recorded, by the same adapter.
#include "common.h"

#if defined(TRACER_SORDINO) || defined(TRACER_FUT)
#include <sordino/boost_fiber.hpp>
#endif
#if defined(TRACER_FUT)
#include "fut/session.h"
#endif

#include <boost/fiber/all.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace {

constexpr int TREES = 20;
// Leaves of a tree, and fibers without the root, which is the program's main function.
constexpr std::uint64_t LEAVES = 1024, FIBERS = 2 * LEAVES - 2;

#if defined(TRACER_SORDINO) || defined(TRACER_FUT)
using algorithm = sordino::boost_fiber::traced<boost::fibers::algo::round_robin>;
#else
using algorithm = boost::fibers::algo::round_robin;
#endif

// Stacks that are used again: a system call for each fiber would hide the cost of everything else.
class Stacks {
public:
    boost::context::stack_context allocate()
    {
        if (unused().empty())
            return boost::context::fixedsize_stack(SIZE).allocate();
        const boost::context::stack_context stack = unused().back();
        unused().pop_back();
        return stack;
    }

    void deallocate(boost::context::stack_context &stack) noexcept { unused().push_back(stack); }

private:
    static constexpr std::size_t SIZE = 16 << 10;

    static std::vector<boost::context::stack_context> &unused()
    {
        static std::vector<boost::context::stack_context> stacks;
        return stacks;
    }
};

std::uint64_t sum(std::uint64_t first, std::uint64_t last)
{
    if (first == last)
        return first;
    const std::uint64_t middle = first + (last - first) / 2;
    std::uint64_t left = 0, right = 0;
    boost::fibers::fiber of_left(
        boost::fibers::launch::post, std::allocator_arg, Stacks(), [&left, first, middle] { left = sum(first, middle); });
    boost::fibers::fiber of_right(boost::fibers::launch::post, std::allocator_arg, Stacks(),
        [&right, last, middle] { right = sum(middle + 1, last); });
    of_left.join();
    of_right.join();
    return left + right;
}

} // namespace

int main(int argc, char **argv)
{
    const int cpu = argc > 1 ? std::atoi(argv[1]) : 1, bursts = argc > 2 ? std::atoi(argv[2]) : 10;
    std::vector<double> times;

    stay_on(cpu);
    boost::fibers::use_scheduling_algorithm<algorithm>();
#if defined(TRACER_FUT)
    fut_begin();
#endif
    // The first burst gets the stacks from the kernel.
    for (int burst = 0; burst <= bursts; burst++) {
        const double begin = cpu_seconds();
        for (int tree = 0; tree < TREES; tree++) {
            if (sum(1, LEAVES) != LEAVES * (LEAVES + 1) / 2) {
                std::fprintf(stderr, "the sum of 1 to %lu is wrong\n", LEAVES);
                return 1;
            }
        }
        if (burst > 0)
            times.push_back((cpu_seconds() - begin) * 1e9 / (TREES * FIBERS));
        // Waits until the collector has emptied the rings.
        sleep_ms(40);
    }
#if defined(TRACER_FUT)
    if (!fut_end())
        return 1;
#endif
    std::nth_element(times.begin(), times.begin() + bursts / 2, times.end());
    std::printf("%.3f\n", times[bursts / 2]);
}
