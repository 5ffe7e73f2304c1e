// A program that never wants to give up says milliseconds::max(), and one that does not want to wait 0.
#include <gtest/gtest.h>

#include <future>
#include <limits>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "unisono/launch.h"
#include "unisono/store.h"
#include "unisono/unisono.h"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds forever = milliseconds::max();

TEST(LongestTimeout, TheLongestTimeoutIsADeadlineThatDoesNotPass) {
  for (const milliseconds timeout : {forever, forever - 1ms, forever / 2, milliseconds(std::chrono::nanoseconds::max().count() / 1'000'000)}) {
    const base::Deadline deadline(timeout);
    EXPECT_FALSE(deadline.passed()) << timeout.count();
    EXPECT_GT(deadline.left(), 24h * 365);
    EXPECT_GT(deadline.poll_timeout(), 0);
    EXPECT_EQ(deadline.poll_timeout(100), 100);
  }
  for (const milliseconds timeout : {0ms, -1ms, milliseconds::min()}) {
    const base::Deadline deadline(timeout);
    EXPECT_TRUE(deadline.passed());
    EXPECT_EQ(deadline.left(), 0ms);
    EXPECT_EQ(deadline.poll_timeout(), 0);
  }
}

// Rank 1 comes when rank 0 has waited in vain for a moment.
TEST(LongestTimeout, TheLongestTimeoutOfACallIsWaitedFor) {
  run_threads(2, [](int rank) {
    const auto other = new_group({0, 1});
    std::vector<int> buffer{rank + 1, rank + 2};
    if (rank == 0) {
      Work work = all_reduce_async(buffer, ReduceOp::sum, world(), {.timeout = forever});
      EXPECT_FALSE(work.wait_for(300ms));
      barrier(*other);
      EXPECT_TRUE(work.wait_for(forever));
    } else {
      barrier(*other);
      all_reduce(buffer, ReduceOp::sum, world(), {.timeout = forever});
    }
    EXPECT_EQ(buffer, (std::vector<int>{3, 5}));
  });
}

TEST(LongestTimeout, TheLongestTimeoutOfABlockingCallIsWaitedFor) {
  run_threads(2, [](int rank) {
    const auto other = new_group({0, 1});
    if (rank == 0) {
      std::vector<int> late(1);
      Work message = irecv(late, 1, *other);
      EXPECT_FALSE(message.wait_for(300ms));  // rank 1 is in the call, and we are not
      barrier(world(), {.timeout = forever});
      message.wait();
    } else {
      barrier(world(), {.timeout = forever});
      send(std::vector<int>{1}, 0, *other);
    }
  });
}

TEST(LongestTimeout, ATimeoutOfNothingIsATimeoutAtOnce) {
  run_threads(2, [](int rank) {
    const auto other = new_group({0, 1});
    if (rank == 0) {
      EXPECT_THROW(static_cast<void>(all_reduce(1, ReduceOp::sum, world(), {.timeout = 0ms})), Timeout);
    }
    barrier(*other);
  });
}

void expect_waited_for(Store& waiting, Store& setting) {
  auto value = std::async(std::launch::async, [&] { return waiting.get("key", forever); });
  EXPECT_EQ(value.wait_for(100ms), std::future_status::timeout);
  setting.set("key", "value");
  EXPECT_EQ(value.get(), "value");
  waiting.set_timeout(forever);
  EXPECT_EQ(waiting.get("key"), "value");
  const std::vector<std::string> keys{"key", "later"};
  auto both = std::async(std::launch::async, [&] { waiting.wait(keys); });
  EXPECT_EQ(both.wait_for(100ms), std::future_status::timeout);
  setting.set("later", "");
  both.get();
  EXPECT_THROW(static_cast<void>(waiting.get("never", 0ms)), Timeout);
}

TEST(LongestTimeout, TheLongestTimeoutOfAStoreInMemoryIsWaitedFor) {
  MemoryStore store;
  expect_waited_for(store, store);
}

TEST(LongestTimeout, TheLongestTimeoutOfAStoreInAFileIsWaitedFor) {
  const std::string path = ::testing::TempDir() + "unisono-longest-" + std::to_string(::getpid());
  {
    FileStore waiting(path), setting(path);
    expect_waited_for(waiting, setting);
  }
  ::unlink(path.c_str());
}

TEST(LongestTimeout, TheLongestTimeoutOfAStoreOverTcpIsWaitedFor) {
  TcpStore server("127.0.0.1", 0, {.is_server = true, .timeout = forever});
  TcpStore client("127.0.0.1", server.port(), {.timeout = forever});
  expect_waited_for(client, server);
}

}  // namespace
}  // namespace unisono
