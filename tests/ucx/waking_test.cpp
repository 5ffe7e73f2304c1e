#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "messages.h"

// A rank that has nothing to do sleeps until UCX's event descriptor says that something has come.

namespace unisono::testing {
namespace {

/// Stands for the notifier of a group: threads sleep on it, and the engine wakes them.
class Sleepers {
 public:
  EngineOptions& tell(EngineOptions& options) {
    options.notify = [this] { notify(); };
    options.has_sleeper = [this] { return has_sleeper(); };
    return options;
  }
  /// Advances a task, and sleeps between two steps for as long as nobody notifies. Returns the number of steps.
  int finish(Task& task) {
    EXPECT_TRUE(task.wakes_waiter());
    for (int steps = 1;; ++steps) {
      std::unique_lock lock(mutex_);
      const int seen = notified_;
      ++sleepers_;
      lock.unlock();
      const bool is_done = task.advance();
      lock.lock();
      if (!is_done && !changed_.wait_for(lock, std::chrono::seconds(60), [&] { return notified_ != seen; })) {
        ADD_FAILURE() << "nobody has notified";
        return steps;
      }
      --sleepers_;
      if (is_done) return steps;
    }
  }

 private:
  void notify() {
    {
      const std::lock_guard lock(mutex_);
      ++notified_;
    }
    changed_.notify_all();
  }
  bool has_sleeper() {
    const std::lock_guard lock(mutex_);
    return sleepers_ > 0;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int notified_ = 0, sleepers_ = 0;
};

TEST(Waking, WakingEndsTheSleepOfARankThatWaits) {
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      Sleepers sleepers;
      EngineOptions options = options_of(rank, 2, store);
      const auto engine = engine_plugin().make(sleepers.tell(options));
      // Ping and pong: each rank sleeps until the other has answered. A wake-up that is lost is a failure after a minute.
      for (std::uint32_t i = 0; i < 300; ++i) {
        const std::size_t bytes = i % 50 == 0 ? std::size_t{2} << 20 : i % 7 * 100;
        const auto ping = [&] {
          const auto data = pattern(bytes, i);
          sleepers.finish(*engine->start_send(data.data(), bytes, 1 - rank, 0));
        };
        if (rank == 0) ping();
        std::vector<std::uint8_t> data(bytes);
        sleepers.finish(*engine->start_recv(data.data(), bytes, 1 - rank, 0));
        ASSERT_EQ(data, pattern(bytes, i));
        if (rank == 1) ping();
      }
      engine->leave();
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(Waking, WakingIsNotPromisedWhereThereIsNobodyToNotify) {
  with_engines(2, [](Engine& engine, int rank) {
    std::uint8_t byte = 7;
    const auto task = rank == 0 ? engine.start_send(&byte, 1, 1, 0) : engine.start_recv(&byte, 1, 0, 0);
    EXPECT_FALSE(task->wakes_waiter());
    finish(*task);
  });
}

}  // namespace
}  // namespace unisono::testing
