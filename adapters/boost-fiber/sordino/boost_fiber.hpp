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
 * Real-time: each callback of the scheduler hits one or two tracepoints. A fiber's first one allocates its properties,
 * unless the thread has memory of an ended fiber's left.
 */
#ifndef SORDINO_BOOST_FIBER_HPP
#define SORDINO_BOOST_FIBER_HPP

#include <sordino/fiber.h>

#include <boost/fiber/algo/algorithm.hpp>
#include <boost/fiber/context.hpp>
#include <boost/fiber/properties.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
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

/* What the traced algorithms of a thread share: which of them is in use, and memory of ended fibers' properties, which
 * new fibers get. Blocks that other threads allocated are welcome. */
class scheduling_thread {
public:
    static scheduling_thread &current() noexcept
    {
        static thread_local scheduling_thread thread;
        return thread;
    }

    /* Returns true if the thread had no traced algorithm. One that replaces another begins before that one ends. */
    bool begin_algorithm(const void *algorithm) noexcept
    {
        newest_ = algorithm;
        return algorithms_++ == 0;
    }

    /* Returns true if the thread has none left. */
    bool end_algorithm(const void *algorithm) noexcept
    {
        if (newest_ == algorithm)
            newest_ = nullptr;
        // 0: the algorithm began on another thread.
        if (algorithms_ == 0 || --algorithms_ > 0)
            return false;
        while (first_ != nullptr)
            ::operator delete(take());
        return true;
    }

    /* Returns true if another algorithm takes the place of this one. */
    bool replaces(const void *algorithm) const noexcept { return newest_ != nullptr && newest_ != algorithm; }

    /* Returns a block, or null. */
    void *take() noexcept
    {
        block *const taken = first_;
        if (taken != nullptr) {
            first_ = taken->next;
            count_--;
        }
        return taken;
    }

    /* Returns false if the block is not kept. */
    bool keep(void *memory) noexcept
    {
        if (algorithms_ == 0 || count_ == MAXIMUM)
            return false;
        first_ = new (memory) block{first_};
        count_++;
        return true;
    }

private:
    struct block {
        block *next;
    };

    /* 4,096 blocks have some 200 KiB. */
    static constexpr unsigned MAXIMUM = 4096;

    block *first_ = nullptr;
    unsigned count_ = 0;
    unsigned algorithms_ = 0;
    /* The traced algorithm that began last, or null. */
    const void *newest_ = nullptr;
};

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

    /* Properties that are derived, and larger, are allocated as usual. */
    static void *operator new(std::size_t size)
    {
        void *const unused = size == sizeof(named) ? scheduling_thread::current().take() : nullptr;
        return unused != nullptr ? unused : ::operator new(size);
    }

    static void operator delete(void *memory, std::size_t size) noexcept
    {
        if (size != sizeof(named) || !scheduling_thread::current().keep(memory))
            ::operator delete(memory);
    }

private:
    std::string name_;
};

/* True if the context waits for another fiber. Since Boost 1.75 contexts do not know. */
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
    static_assert(alignof(Properties) <= alignof(std::max_align_t), "named::operator new aligns no stronger");
    using context = boost::fibers::context;

public:
    template <class... Arguments>
    explicit traced(Arguments &&...arguments) : algorithm_(new Algorithm(std::forward<Arguments>(arguments)...))
    {
        if (scheduling_thread::current().begin_algorithm(this))
            sordino_fiber_thread_enter("Boost.Fiber");
    }

    ~traced() override
    {
        if (scheduling_thread::current().end_algorithm(this))
            sordino_fiber_thread_leave();
    }

    /* Called on the thread that will run 'ready': behind a switch for the fiber that yielded, otherwise by the waker. */
    void awakened(context *ready) noexcept override
    {
        if (current_ == nullptr || ready == current_)
            follow_dispatch();
        const std::uint64_t fiber = number(ready);
        if (fiber != 0 && !declare(ready) && ready != yielded_)
            sordino_fiber_wake(fiber, number(current_));
        yielded_ = nullptr;
        algorithm_->awakened(ready);
    }

    /* Called by the running context, directly before the switch. */
    context *pick_next() noexcept override
    {
        context *const previous = context::active();
        context *const next = algorithm_->pick_next();
        // One that yielded is ready before the next pick.
        yielded_ = nullptr;
        // use_scheduling_algorithm() empties the queue of the algorithm that it replaces, and runs nothing of it.
        if (next == nullptr || scheduling_thread::current().replaces(this))
            return next;
        const std::uint64_t from = number(previous), to = number(next);
        if (from != to) {
            const char *on = nullptr;
            const sordino_fiber_why why = from == 0 ? SORDINO_FIBER_RESUMED : reason(previous, on);
            sordino_fiber_switch(from, to, why, on);
            if (why == SORDINO_FIBER_ENDED)
                sordino_fiber_end(from);
            if (why == SORDINO_FIBER_YIELDED || why == SORDINO_FIBER_UNKNOWN)
                yielded_ = previous;
        }
        current_ = next;
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
    /* The reason for which a running context stops, and what it is blocked on, from the queues that it is in. A running
     * one is in the list of its scheduler's, which it leaves when it ends; the queue of ended ones does not show its last
     * element. */
    static sordino_fiber_why reason(const context *stopped, const char *&on) noexcept
    {
        if (!stopped->worker_is_linked())
            return SORDINO_FIBER_ENDED;
        if (waits(stopped, 0))
            return SORDINO_FIBER_BLOCKED;
        if (stopped->sleep_is_linked()) {
            on = "sleep";
            return SORDINO_FIBER_BLOCKED;
        }
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

    /* Records a switch that the algorithm was not asked for: launch::dispatch runs a new fiber at once, and makes the
     * one that ran before ready. */
    void follow_dispatch() noexcept
    {
        context *const previous = current_;
        current_ = context::active();
        const std::uint64_t from = number(previous), to = number(current_);
        if (from == to)
            return;
        if (to != 0)
            declare(current_);
        sordino_fiber_switch(from, to, from == 0 ? SORDINO_FIBER_RESUMED : SORDINO_FIBER_YIELDED, nullptr);
        yielded_ = previous;
    }

    const boost::intrusive_ptr<Algorithm> algorithm_;
    /* The context that this thread runs, as far as recorded; null before the first callback. */
    context *current_ = nullptr;
    /* The context that has just stopped and becomes ready without being woken, or null. */
    const context *yielded_ = nullptr;
};

} // namespace boost_fiber
} // namespace sordino

#endif /* SORDINO_BOOST_FIBER_HPP */
