#include <atomic>
#include <thread>

#include "unisono/detail/request.h"
#include "world.h"

// Calls on a group that several threads of a rank share, as torch.distributed makes them.

using namespace unisono;
using namespace conformance;

namespace {

/// Sums `x` over all ranks; returns how often the group was given to the other threads.
int shared_sum(
    std::vector<float>& x, const ProcessGroup& group, const std::function<void()>& then = [] {}) {
  std::atomic<int> issued{0};
  const TensorView view(x.data(), DType::float32, x.size());
  detail::run({.operation = Operation::all_reduce, .in = view, .out = view}, group, {}, [&] {
    ++issued;
    then();
  });
  return issued;
}

// A sum of a few bytes is done at once; for one of many the call waits.
WORLD_TEST(SharedGroup, ASharedGroupSumsAndGivesTheGroupOnOnce) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{257}, std::size_t{100003}}) {
    auto x = values<float>(count, rank());
    EXPECT_EQ(shared_sum(x, world()), 1);
    EXPECT_EQ(difference(x, sums<float>(count, world_size())), "");
  }
}

// One rank comes so late that the others leave the trial behind; their next calls are made by other threads meanwhile.
MANY_TEST(SharedGroup, AnotherThreadCallsWhileOneWaits) {
  auto x = values<float>(5, rank());
  std::vector<int> token{rank()};
  if (rank() == 0) {
    recv(token, world_size() - 1);  // comes from a thread whose rank waits for this one
    shared_sum(x, world());
  } else {
    std::atomic<bool> may_call{false};
    std::thread other([&, group = world(), is_sender = rank() == world_size() - 1] {
      while (!may_call) std::this_thread::yield();
      if (is_sender) send(token, 0, group);
    });
    shared_sum(x, world(), [&] { may_call = true; });
    other.join();
  }
  EXPECT_EQ(difference(x, sums<float>(5, world_size())), "");
  EXPECT_EQ(token[0], rank() == 0 ? world_size() - 1 : rank());
}

// The ranks differ: each throws, with the group and the call's number, and the group stays usable.
MANY_TEST(SharedGroup, MismatchIsThrownAndTheGroupGoesOn) {
  for (int odd = 0; odd < world_size(); ++odd) {
    std::vector<float> x(rank() == odd ? 3 : 4, 1.0F);
    const auto error = thrown_by<Mismatch>([&] { shared_sum(x, world()); });
    EXPECT_EQ(error.group(), "world");
    EXPECT_GT(error.sequence(), 0U);
    EXPECT_EQ(x, std::vector<float>(x.size(), 1.0F));
    expect_usable();
  }
}

// A collective that is pending comes first.
WORLD_TEST(SharedGroup, ASharedGroupKeepsTheOrderOfTheCalls) {
  auto x = values<float>(40000, rank()), y = values<float>(7, rank());
  Work first = all_reduce_async(x);
  EXPECT_EQ(shared_sum(y, world()), 1);
  first.wait();
  EXPECT_EQ(difference(x, sums<float>(40000, world_size())), "");
  EXPECT_EQ(difference(y, sums<float>(7, world_size())), "");
}

// A peer that leaves the group is noticed while the call waits for it, and by the next call.
MANY_TEST(SharedGroup, AGroupThatIsOverSaysSo) {
  const auto pair = new_group({0, 1});
  if (!pair) return;
  std::vector<float> x(3, 1.0F);
  if (rank() == 0) {
    EXPECT_THROW(shared_sum(x, *pair), PeerFailed);
    EXPECT_THROW(shared_sum(x, *pair), PeerFailed);
  } else {
    ProcessGroup(*pair).abort("enough");
  }
}

}  // namespace
