// Two threads and a queue: how long does an item wait?
//
//     c++ -std=c++17 queue.cpp -o queue -pthread $(pkg-config --cflags --libs sordino)
//     sordino record -- ./queue
//     sordino explain --begin queue:put --end queue:get --by item
#include <sordino/tracepoint.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <queue>
#include <string>
#include <thread>

SORDINO_TRACEPOINT(queue, put, SORDINO_INFO, (u64, item), (string, name))
SORDINO_TRACEPOINT(queue, get, SORDINO_INFO, (u64, item), (u32, left))

namespace {

class Queue {
public:
    void put(std::uint64_t item)
    {
        const std::string name = "item " + std::to_string(item);
        sordino_tracepoint(queue, put, item, name.c_str());
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            items_.push(item);
        }
        filled_.notify_one();
    }

    std::uint64_t get()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        filled_.wait(lock, [this] { return !items_.empty(); });
        const std::uint64_t item = items_.front();
        items_.pop();
        sordino_tracepoint(queue, get, item, static_cast<std::uint32_t>(items_.size()));
        return item;
    }

private:
    std::mutex mutex_;
    std::condition_variable filled_;
    std::queue<std::uint64_t> items_;
};

} // namespace

int main(int argc, char **argv)
{
    const std::uint64_t items = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
    Queue queue;
    std::thread consumer([&] {
        while (queue.get() + 1 < items) {
        }
    });
    for (std::uint64_t item = 0; item < items; item++) {
        queue.put(item);
    }
    consumer.join();
}
