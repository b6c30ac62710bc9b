/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Events about the fibers of Boost.Fiber (1.74 and later), without a patch of it.
 *
 *     #include <sordino/boost_fiber.hpp>
 *
 *     boost::fibers::use_scheduling_algorithm<sordino::boost_fiber::traced<boost::fibers::algo::round_robin>>();
 *
 *     boost::fibers::fiber fiber(work);
 *     fiber.properties<sordino::boost_fiber::named>().name("worker");
 *
 * Each thread that runs fibers uses traced<ALGORITHM> instead of ALGORITHM, with the arguments of its constructor.
 * docs/fibers.md describes the events, and the limits of what an algorithm knows.
 *
 * Real-time: each callback of the scheduler hits one or two tracepoints. A fiber's first one allocates its properties.
 */
#ifndef SORDINO_BOOST_FIBER_HPP
#define SORDINO_BOOST_FIBER_HPP

#include <sordino/fiber.h>

#include <boost/fiber/algo/algorithm.hpp>
#include <boost/fiber/context.hpp>
#include <boost/fiber/properties.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

namespace sordino {
namespace boost_fiber {

/* The number of a context: its address, as Boost.Fiber prints the fiber's id; 0 for the scheduler's own context, and
 * for that of a thread. */
inline std::uint64_t number(const boost::fibers::context *context) noexcept
{
    const bool is_fiber = context != nullptr && context->is_context(boost::fibers::type::worker_context);
    return is_fiber ? static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(context)) : 0;
}

/* The number of the fiber that calls it, or 0. */
inline std::uint64_t number() noexcept
{
    return number(boost::fibers::context::active());
}

/* The properties that every fiber of a traced algorithm has: its name. */
class named : public boost::fibers::fiber_properties {
public:
    explicit named(boost::fibers::context *context) noexcept : fiber_properties(context) {}

    const std::string &name() const noexcept { return name_; }

    void name(std::string name)
    {
        name_ = std::move(name);
        sordino_fiber_rename(number(ctx_), name_.c_str());
    }

private:
    std::string name_;
};

/* True if the context waits for another fiber. Since Boost 1.79 contexts do not know. */
template <class Context>
auto waits(const Context *context, int) noexcept -> decltype(context->wait_is_linked())
{
    return context->wait_is_linked();
}
template <class Context>
bool waits(const Context *, long) noexcept
{
    return false;
}
template <class Context, class = void>
struct knows_waits : std::false_type {};
template <class Context>
struct knows_waits<Context, decltype(void(std::declval<const Context &>().wait_is_linked()))> : std::true_type {};

/* An algorithm that records what the wrapped one is told and decides. If the wrapped one has properties of its own, they
 * are derived from 'named', and are the second argument. */
template <class Algorithm, class Properties = named>
class traced : public boost::fibers::algo::algorithm {
    static_assert(std::is_base_of<named, Properties>::value, "the properties have to be derived from named");
    using context = boost::fibers::context;

public:
    template <class... Arguments>
    explicit traced(Arguments &&...arguments) : algorithm_(new Algorithm(std::forward<Arguments>(arguments)...))
    {
        sordino_fiber_thread_enter("Boost.Fiber");
    }

    ~traced() override { sordino_fiber_thread_leave(); }

    /* Called on the thread that will run 'ready': behind a switch for the fiber that yielded, otherwise by the waker. */
    void awakened(context *ready) noexcept override
    {
        follow_dispatch();
        const std::uint64_t fiber = number(ready);
        if (fiber != 0 && !declare(ready) && fiber != yielded_)
            sordino_fiber_wake(fiber, running_);
        yielded_ = 0;
        algorithm_->awakened(ready);
    }

    /* Called by the running context, directly before the switch. */
    context *pick_next() noexcept override
    {
        context *const previous = context::active();
        context *const next = algorithm_->pick_next();
        if (next == nullptr)
            return next;
        const std::uint64_t from = number(previous), to = number(next);
        yielded_ = 0;
        if (from != to) {
            const sordino_fiber_why why = from == 0 ? SORDINO_FIBER_RESUMED : reason(previous);
            const bool sleeps = why == SORDINO_FIBER_BLOCKED && !waits(previous, 0) && previous->sleep_is_linked();
            sordino_fiber_switch(from, to, why, sleeps ? "sleep" : nullptr);
            if (why == SORDINO_FIBER_ENDED)
                sordino_fiber_end(from);
            if (why == SORDINO_FIBER_YIELDED || why == SORDINO_FIBER_UNKNOWN)
                yielded_ = from;
        }
        running_ = to;
        return next;
    }

    bool has_ready_fibers() const noexcept override { return algorithm_->has_ready_fibers(); }

    void suspend_until(const std::chrono::steady_clock::time_point &time) noexcept override
    {
        algorithm_->suspend_until(time);
    }

    /* Called by other threads, too. */
    void notify() noexcept override { algorithm_->notify(); }

private:
    /* The reason for which a running context stops, from the queues that it is in. A running one is in the list of its
     * scheduler's, which it leaves when it ends; the queue of ended ones does not show its last element. */
    static sordino_fiber_why reason(const context *stopped) noexcept
    {
        if (!stopped->worker_is_linked())
            return SORDINO_FIBER_ENDED;
        if (stopped->sleep_is_linked() || waits(stopped, 0))
            return SORDINO_FIBER_BLOCKED;
        return knows_waits<context>::value ? SORDINO_FIBER_YIELDED : SORDINO_FIBER_UNKNOWN;
    }

    /* Records a fiber that has no properties yet, which is new; returns true if it is. */
    static bool declare(context *fiber) noexcept
    {
        if (fiber->get_properties() != nullptr)
            return false;
        fiber->set_properties(new Properties(fiber));
        sordino_fiber_new(number(fiber), nullptr);
        return true;
    }

    /* Records a switch that the algorithm was not asked for: launch::dispatch runs a new fiber at once. */
    void follow_dispatch() noexcept
    {
        context *const active = context::active();
        const std::uint64_t now = number(active);
        if (now == running_)
            return;
        if (now != 0)
            declare(active);
        sordino_fiber_switch(running_, now, running_ == 0 ? SORDINO_FIBER_RESUMED : SORDINO_FIBER_YIELDED, nullptr);
        yielded_ = running_;
        running_ = now;
    }

    const boost::intrusive_ptr<Algorithm> algorithm_;
    /* The fiber that this thread runs, as far as recorded; 0: none. */
    std::uint64_t running_ = 0;
    /* The fiber that has just stopped and becomes ready without being woken; 0: none. */
    std::uint64_t yielded_ = 0;
};

} // namespace boost_fiber
} // namespace sordino

#endif /* SORDINO_BOOST_FIBER_HPP */
