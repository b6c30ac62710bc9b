// Fibers of Boost.Fiber that are ready while another algorithm replaces the one that knows them.
#include <sordino/boost_fiber.hpp>

#include <boost/fiber/all.hpp>

int main()
{
    using namespace boost::fibers;
    use_scheduling_algorithm<sordino::boost_fiber::traced<algo::round_robin>>();
    const auto work = [] { boost::this_fiber::yield(); };
    fiber first(launch::post, work), second(launch::post, work);
    // Takes each ready fiber from its thread, for others to run.
    use_scheduling_algorithm<sordino::boost_fiber::traced<algo::shared_work>>();
    first.join();
    second.join();
}
