#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "messages.h"
#include "unisono/error.h"

// Ends of a group in the middle of its transfers.

namespace unisono::testing {
namespace {

constexpr std::size_t large = std::size_t{32} << 20;  // more than the connections hold

TEST(Abort, AnAbortEndsWhatIsUnderWay) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{100'000}, large}) {
    std::promise<void> aborted;
    const std::shared_future<void> after = aborted.get_future().share();
    with_engines(3, [&](Engine& engine, int rank) {
      if (rank != 0) return after.wait();
      std::vector<std::uint8_t> in(bytes), out(bytes);
      std::vector<std::unique_ptr<Task>> tasks;
      tasks.push_back(engine.start_recv(in.data(), bytes, 1, 0));
      tasks.push_back(engine.start_discard(bytes, 2, 9));
      if (bytes == large) tasks.push_back(engine.start_send(out.data(), bytes, 2, 0));
      for (const auto& task : tasks) EXPECT_FALSE(task->advance());
      std::thread other([&] { engine.abort({.culprit = 2, .message = "rank 2 is silent"}); });
      for (const auto& task : tasks) EXPECT_NE(error_of([&] { finish(*task); }).find("rank 2 is silent"), std::string::npos) << bytes;
      other.join();
      EXPECT_NE(error_of([&] { engine.start_recv(in.data(), bytes, 1, 0); }).find("rank 2 is silent"), std::string::npos);
      engine.abort({});  // again
      tasks.clear();
      aborted.set_value();
    });
  }
}

// What comes afterwards, or is half there, must not be written into memory that is the program's again.
TEST(Abort, AnAbortLeavesTheMemoryAlone) {
  for (int round = 0; round < 8; ++round) {
    std::promise<void> receiving, aborted;
    const std::shared_future<void> posted = receiving.get_future().share(), after = aborted.get_future().share();
    with_engines(2, [&](Engine& engine, int rank) {
      if (rank == 1) {
        const auto data = pattern(large, 1);
        posted.wait();
        const auto sending = engine.start_send(data.data(), large, 0, 0);
        // It goes on sending until the other end has seen what became of its memory.
        static_cast<void>(error_of([&] {
          while (after.wait_for(std::chrono::seconds(0)) != std::future_status::ready) sending->advance();
        }));
        return engine.abort({.message = "enough"});
      }
      std::vector<std::uint8_t> memory(large, 0);
      auto task = engine.start_recv(memory.data(), large, 1, 0);
      receiving.set_value();
      // Aborted in the middle: once the first bytes are there, which come in pieces, or at once.
      const volatile std::uint8_t& first = memory[0];
      for (bool is_done = false; round % 2 == 1 && !is_done && first == 0;) is_done = task->advance();
      engine.abort({.message = "enough"});
      task.reset();
      const std::vector<std::uint8_t> then = memory;
      for (int i = 0; i < 2000; ++i) std::this_thread::yield();  // the peer goes on sending meanwhile
      aborted.set_value();
      EXPECT_TRUE(memory == then) << "round " << round;
    });
  }
}

// An asynchronous call that is given up: its memory is free when the task is gone.
TEST(Tasks, TasksThatAreDroppedEndTheGroup) {
  with_engines(2, [](Engine& engine, int rank) {
    std::vector<std::uint8_t> memory(100);
    if (rank == 0) {
      { const auto task = engine.start_recv(memory.data(), memory.size(), 1, 0); }
      EXPECT_NE(error_of([&] { engine.start_recv(memory.data(), memory.size(), 1, 0); }).find("given up"), std::string::npos);
    }
  });
}

TEST(Tasks, TasksMayLiveLongerThanTheEngine) {
  std::unique_ptr<Task> task;
  std::vector<std::uint8_t> memory(100);
  with_engines(2, [&](Engine& engine, int rank) {
    if (rank == 0) task = engine.start_recv(memory.data(), memory.size(), 1, 0);
  });
  EXPECT_THROW(task->advance(), PeerFailed);
  task.reset();
}

TEST(Leaving, LeavingTwiceIsOfNoUse) {
  with_engines(2, [](Engine& engine, int rank) {
    if (rank == 0) send_bytes(engine, pattern(5, 1), 1);
    else EXPECT_EQ(receive_bytes(engine, 5, 0), pattern(5, 1));
    engine.leave();
    EXPECT_THROW(engine.start_send(nullptr, 0, 1 - rank, 0), PeerFailed);
    engine.abort({});
  });
}

}  // namespace
}  // namespace unisono::testing
