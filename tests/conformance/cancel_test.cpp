// Receives that are taken back, or that nobody answers.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "../unit/kernels/oracle.h"
#include "world.h"

using namespace unisono;
using namespace conformance;
using namespace std::chrono_literals;

namespace {

// The message that comes later is that of the next receive; the buffer stays as it was.
MANY_TEST(Cancel, CancelTakesBackAReceiveThatHasNoMessage) {
  const int next = (rank() + 1) % world_size(), previous = (rank() + world_size() - 1) % world_size();
  for (const std::size_t count : {std::size_t{1}, std::size_t{300'000}}) {
    const auto own = values<float>(count, rank()), theirs = values<float>(count, previous);
    std::vector<float> unwanted(count, 3.0F), wanted(count, 4.0F);
    Work first = irecv(unwanted, previous, world(), {.tag = 5}), any = irecv(unwanted, any_source, world(), {.tag = 6});
    EXPECT_TRUE(first.cancel());
    EXPECT_TRUE(any.cancel());
    EXPECT_FALSE(any.cancel()) << "it is done";
    barrier();  // nobody sends before all have taken theirs back
    Work sent = isend(own, next, world(), {.tag = 5});
    recv(wanted, previous, world(), {.tag = 5});
    sent.wait();
    EXPECT_EQ(difference(wanted, theirs), "");
    for (Work* const work : {&first, &any}) {
      EXPECT_TRUE(work->is_completed());
      EXPECT_EQ(work->exception(), nullptr);
      work->wait();
      EXPECT_EQ(work->source_rank(), -1);
      EXPECT_EQ(work->tag(), 0);
    }
    EXPECT_EQ(unwanted, std::vector<float>(count, 3.0F));
    barrier();
  }
}

MANY_TEST(Cancel, CancelIsFalseForAMessageThatHasCome) {
  const int next = (rank() + 1) % world_size(), previous = (rank() + world_size() - 1) % world_size();
  for (const std::size_t count : {std::size_t{1}, std::size_t{300'000}}) {
    const auto own = values<float>(count, rank());
    std::vector<float> x(count);
    Work received = irecv(x, previous);
    Work sent = isend(own, next);
    received.wait();
    EXPECT_FALSE(received.cancel());
    EXPECT_EQ(received.source_rank(), previous);
    EXPECT_EQ(difference(x, values<float>(count, previous)), "");
    sent.wait();
    barrier();
  }
}

// A strided receive has a task of its own, which unpacks.
MANY_TEST(Cancel, CancelTakesBackAStridedReceive) {
  const int next = (rank() + 1) % world_size(), previous = (rank() + world_size() - 1) % world_size();
  std::vector<float> memory(20, 7.0F);
  const std::array<std::int64_t, 1> shape{10}, strides{2};
  const Tensor every_other(memory.data(), DType::float32, shape, strides);
  Work unwanted = irecv(every_other, previous);
  EXPECT_TRUE(unwanted.cancel());
  unwanted.wait();
  EXPECT_EQ(unwanted.source_rank(), -1);
  barrier();
  send(std::array{static_cast<float>(rank())}, next);
  std::array<float, 1> x{};
  EXPECT_EQ(recv(x, previous), previous);
  EXPECT_EQ(x[0], static_cast<float>(previous));
  EXPECT_EQ(memory, std::vector<float>(20, 7.0F));
  barrier();
}

// Whoever waits in another thread for a receive that is taken back goes on.
MANY_TEST(Cancel, CancelEndsWhatWaitsForIt) {
  std::array<int, 1> x{};
  Work work = irecv(x, any_source);
  std::atomic<bool> is_called{false};
  work.on_completion([&] { is_called = true; });
  std::thread waiter([&] { work.wait(); });
  EXPECT_TRUE(work.cancel());
  waiter.join();
  EXPECT_TRUE(is_called);
  std::array works{work, Work()};
  EXPECT_EQ(wait_any(works), 0U);
  barrier();
}

WORLD_TEST(Cancel, CancelIsForReceivesOnly) {
  EXPECT_FALSE(Work().cancel());
  Work sum = barrier_async();
  EXPECT_FALSE(sum.cancel());
  sum.wait();
  if (world_size() == 1) return;
  const std::vector<float> own(300'000, 1.0F);
  std::vector<float> x(own.size());
  Work sent = isend(own, (rank() + 1) % world_size());
  EXPECT_FALSE(sent.cancel());
  recv(x, (rank() + world_size() - 1) % world_size());
  sent.wait();
}

// A receive that nobody answers ends at its deadline, and its error names the message that has come instead.
WORLD_TEST_IN((Worlds{.at_least = 2, .at_most = 3, .poisons = true}), Recv, AReceiveNamesAMessageWithAnotherTag) {
  const int next = (rank() + 1) % world_size(), previous = (rank() + world_size() - 1) % world_size();
  send(std::array{1.0F, 2.0F}, next, world(), {.tag = 7});
  barrier();
  std::array<float, 2> x{};
  const auto error = thrown_by<Timeout>([&] { recv(x, previous, world(), {.timeout = 500ms, .tag = 5}); });
  EXPECT_NE(error.message().find(" has sent it a message with tag 7 (float32 × 2), which no receive has asked for"), std::string::npos)
      << error.what();
}

}  // namespace
