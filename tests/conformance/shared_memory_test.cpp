// Buffers that all ranks can reach: the results are those of any other buffer, whichever ranks have them there, and from the second large call on
// nothing is staged in between.
#include "unisono/shared_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <thread>
#include <vector>

#include "blocks.h"
#include "engines/shm/engine.h"
#include "group/group.h"
#include "world.h"

using namespace unisono;
using namespace std::chrono_literals;
using conformance::difference;
using conformance::Lengths;
using conformance::sums;
using conformance::value;
using conformance::values;

namespace {

/// Other engines move what lies in shared memory as they move everything.
bool is_native() { return world().backend() == "native"; }

/// Whether this rank expects the next large call of the group to be direct.
bool expects_direct(const ProcessGroup& group = world()) {
  auto* native = dynamic_cast<engines::shm::ShmEngine*>(&group.implementation()->core().executor().engine());
  return native != nullptr && native->lockstep().direct().expected();
}

template <class T>
shared_vector<T> shared_values(std::size_t n, int r) {
  const auto x = values<T>(n, r);
  return {x.begin(), x.end()};
}

/// Until the ranks reach each other's memory: one call to find out that they could, one to tell.
void make_direct() {
  for (int i = 0; i < 2; ++i) {
    shared_vector<float> x(5000, 1.0F);
    all_reduce(x);
  }
  EXPECT_EQ(expects_direct(), is_native() && world_size() > 1);
}

// Just large enough, odd, and more than the ordinary path takes in one step.
const std::vector<std::size_t> counts{1024, 5003, 70001};

}  // namespace

WORLD_TEST(SharedMemory, ReductionsInSharedMemoryAreDirect) {
  make_direct();
  for (const std::size_t n : counts) {
    auto x = shared_values<float>(n, rank());
    all_reduce(x);
    EXPECT_EQ(difference(x, sums<float>(n, world_size())), "") << n;
    const auto in = shared_values<double>(n, rank());
    shared_vector<double> out(n);
    all_reduce(in, out);
    EXPECT_EQ(difference(out, sums<double>(n, world_size())), "") << n;
    EXPECT_EQ(difference(in, values<double>(n, rank())), "") << "the input was changed";
    auto wide = shared_values<std::int64_t>(n, rank());
    all_reduce(wide, ReduceOp::avg);
    auto averages = sums<std::int64_t>(n, world_size());
    for (auto& average : averages) average /= world_size();
    EXPECT_EQ(difference(wide, averages), "");
    for (int root = 0; root < world_size(); ++root) {
      auto y = shared_values<std::int32_t>(n, rank());
      reduce(y, root, [](std::int32_t a, std::int32_t b) { return std::max(a, b); });
      EXPECT_EQ(difference(y, values<std::int32_t>(n, rank() == root ? world_size() - 1 : rank())), "") << "root " << root;
    }
    const auto ranks = static_cast<std::size_t>(world_size());
    const auto blocks = shared_values<float>(n * ranks, rank());
    shared_vector<float> block(n);
    reduce_scatter(blocks, block);
    const auto all = sums<float>(n * ranks, world_size());
    EXPECT_EQ(difference(block, std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(n) * rank(),
                                                   all.begin() + static_cast<std::ptrdiff_t>(n) * (rank() + 1))),
              "");
  }
  EXPECT_EQ(expects_direct(), is_native() && world_size() > 1);
}

WORLD_TEST(SharedMemory, MovesInSharedMemoryAreDirect) {
  make_direct();
  const int ranks = world_size();
  const auto size = static_cast<std::size_t>(ranks);
  for (const std::size_t n : counts) {
    for (int root = 0; root < ranks; ++root) {
      auto x = shared_values<float>(n, rank());
      broadcast(x, root);
      EXPECT_EQ(difference(x, values<float>(n, root)), "");
      const auto own = shared_values<float>(n, rank());
      shared_vector<float> all(rank() == root ? n * size : 0);
      gather(own, all, root);
      for (int r = 0; r < ranks && rank() == root; ++r) {
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(all[static_cast<std::size_t>(r) * n + i], value<float>(r, i));
      }
      const auto parts = shared_values<float>(rank() == root ? n * size : 0, root);
      shared_vector<float> part(n);
      scatter(parts, part, root);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(part[i], value<float>(root, static_cast<std::size_t>(rank()) * n + i));
    }
    shared_vector<std::int16_t> all(n * size);
    std::span<std::int16_t> mine = std::span(all).subspan(static_cast<std::size_t>(rank()) * n, n);
    const auto own = values<std::int16_t>(n, rank());
    std::copy(own.begin(), own.end(), mine.begin());
    all_gather(mine, all);  // in place
    for (int r = 0; r < ranks; ++r) {
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(all[static_cast<std::size_t>(r) * n + i], value<std::int16_t>(r, i));
    }
    const auto to = shared_values<double>(n * size, rank());
    shared_vector<double> from(n * size);
    all_to_all(to, from);
    for (int r = 0; r < ranks; ++r) {
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_EQ(from[static_cast<std::size_t>(r) * n + i], value<double>(r, static_cast<std::size_t>(rank()) * n + i));
    }
  }
}

// Also where some ranks have private buffers, one rank has no elements, and one has most of them.
WORLD_TEST(SharedMemory, BlocksOfDifferentLengthAreMoved) {
  const int ranks = world_size();
  for (const int kinds : {1, 2}) {  // all buffers are shared, or every second rank's
    make_direct();
    const auto memory = [&]() -> std::pmr::memory_resource* { return rank() % kinds == 0 ? shared_resource() : std::pmr::new_delete_resource(); };
    for (const std::size_t n : {std::size_t{3001}, std::size_t{70001}}) {
      Lengths lengths;
      for (int r = 0; r < ranks; ++r) lengths.push_back(r == 1 ? 0 : r == ranks - 1 ? 4 * n : n + static_cast<std::size_t>(r));
      const auto blocks = conformance::blocks_of_all<float>(lengths);
      const auto own = values<float>(conformance::own(lengths), rank());
      const std::pmr::vector<float> in(own.begin(), own.end(), memory());
      std::pmr::vector<float> all(blocks.size(), 0.0F, memory());
      all_gather_v(in, all, lengths);
      EXPECT_EQ(difference(all, blocks), "");
      EXPECT_EQ(expects_direct(), is_native() && ranks > 1 && kinds == 1);
      for (int root = 0; root < ranks; root += 2) {
        std::pmr::vector<float> gathered(rank() == root ? blocks.size() : 0, 0.0F, memory()), back(own.size(), 0.0F, memory());
        gather_v(in, gathered, lengths, root);
        EXPECT_EQ(difference(gathered, rank() == root ? blocks : std::vector<float>()), "");
        scatter_v(gathered, lengths, back, root);
        EXPECT_EQ(difference(back, own), "");
      }
      std::pmr::vector<float> sum(own.size(), 0.0F, memory());
      reduce_scatter_v(all, lengths, sum);
      for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], static_cast<float>(ranks) * own[i]);
      // Each rank sends each the block of that rank, so all send the same.
      const Lengths same(lengths.size(), own.size());
      std::pmr::vector<float> received(own.size() * lengths.size(), 0.0F, memory());
      all_to_all_v(all, lengths, received, same);
      for (std::size_t i = 0; i < received.size(); ++i) ASSERT_EQ(received[i], own[i % own.size()]);
    }
  }
}

// Ranks whose buffers lie elsewhere change what is done, never what comes out; and all ranks notice alike.
MANY_TEST(SharedMemory, ABufferThatLiesElsewhereTakesTheOrdinaryWay) {
  constexpr std::size_t n = 6007;
  for (int odd = 0; odd < world_size(); ++odd) {
    make_direct();
    for (int i = 0; i < 3; ++i) {
      shared_vector<float> shared = shared_values<float>(n, rank());
      std::vector<float> ordinary = values<float>(n, rank());
      if (rank() == odd) all_reduce(ordinary);
      else all_reduce(shared);
      if (rank() == odd) EXPECT_EQ(difference(ordinary, sums<float>(n, world_size())), "");
      else EXPECT_EQ(difference(shared, sums<float>(n, world_size())), "");
      EXPECT_FALSE(expects_direct());
    }
    // A strided view of shared memory is packed into ordinary memory first.
    shared_vector<float> twice(2 * n, 0.0F);
    for (std::size_t i = 0; i < n; ++i) twice[2 * i] = value<float>(rank(), i);
    TensorView strided(twice.data(), DType::float32, std::array{static_cast<std::int64_t>(n)}, std::array<std::int64_t, 1>{2});
    all_reduce(strided);
    const auto expected = sums<float>(n, world_size());
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(twice[2 * i], expected[i]);
  }
}

MANY_TEST(SharedMemory, TheOrderOfAsynchronousCallsIsKept) {
  make_direct();
  constexpr std::size_t n = 9001;
  std::vector<shared_vector<double>> buffers;
  std::vector<double> ordinary = values<double>(n, rank());
  std::vector<Work> works;
  for (int i = 0; i < 6; ++i) buffers.push_back(shared_values<double>(n, rank() + i));
  for (int i = 0; i < 6; ++i) {
    works.push_back(all_reduce_async(buffers[static_cast<std::size_t>(i)]));
    if (i == 2) works.push_back(all_reduce_async(ordinary));
  }
  auto late = shared_values<double>(n, rank());
  all_reduce(late);  // behind all of them
  wait_all(works);
  EXPECT_EQ(difference(ordinary, sums<double>(n, world_size())), "");
  EXPECT_EQ(difference(late, sums<double>(n, world_size())), "");
  for (int i = 0; i < 6; ++i) {
    auto expected = sums<double>(n, world_size());
    for (double& x : expected) x += i * world_size();
    EXPECT_EQ(difference(buffers[static_cast<std::size_t>(i)], expected), "") << i;
  }
}

// The comparison of calls comes first, here too; nothing is moved.
MANY_TEST(SharedMemory, CallsThatDoNotMatchAreRefused) {
  make_direct();
  const std::size_t n = rank() == 0 ? 5000 : 6000;
  auto x = shared_values<float>(n, rank());
  conformance::thrown_by<Mismatch>([&] { all_reduce(x); });
  EXPECT_EQ(difference(x, values<float>(n, rank())), "");
  EXPECT_EQ(expects_direct(), is_native());
  // A call that is large on one rank and small on the others.
  auto y = shared_values<float>(rank() == 0 ? 10 : 6000, rank());
  conformance::thrown_by<Mismatch>([&] { all_reduce(y); });
  conformance::expect_usable();
}

MANY_TEST(SharedMemory, SharedMemoryWorksInGroups) {
  const auto half = split_group(world(), rank() % 2);
  constexpr std::size_t n = 4099;
  for (int i = 0; i < 4; ++i) {
    auto x = shared_values<float>(n, rank());
    all_reduce(x, ReduceOp::max, *half);
    EXPECT_EQ(difference(x, values<float>(n, half->global_ranks().back())), "");
  }
  EXPECT_EQ(expects_direct(*half), is_native() && half->size() > 1);
}

// Also by a call that nobody waits for yet.
WORLD_TEST_IN((conformance::Worlds{.at_least = 2, .poisons = true, .threads_only = true}), SharedMemory, ARankThatDoesNotComeIsNamed) {
  make_direct();
  auto x = shared_values<float>(5000, rank());
  if (rank() == 0) {
    Work work = all_reduce_async(x, ReduceOp::sum, world(), {.timeout = 100ms});
    std::vector<int> others;
    for (int r = 1; r < world_size(); ++r) others.push_back(r);
    EXPECT_EQ(conformance::thrown_by<Timeout>([&] { work.wait(); }).missing(), others);
  } else {
    std::vector<int> nothing(1);
    conformance::thrown_by<Timeout>([&] { recv(nothing, 0); });
  }
}

// A rank that gives up on a call may use its memory for something else at once. Another that is still reading there must not take what it finds for a
// result.
WORLD_TEST_IN((conformance::Worlds{.at_least = 2, .poisons = true, .threads_only = true}), SharedMemory,
              SharedMemoryIsNotReadWhenItsOwnerHasGivenUp) {
  make_direct();
  static std::atomic<int> given_up;
  given_up = 0;
  constexpr std::size_t n = 3001;
  const int root = world_size() - 1;
  auto x = shared_values<double>(n, rank());
  barrier();
  // The root's reading lasts until all others are gone.
  const auto slow_sum = [](double a, double b) {
    while (given_up < world_size() - 1) std::this_thread::yield();
    return a + b;
  };
  if (rank() == root) {
    conformance::thrown_by<Timeout>([&] { reduce(x, root, slow_sum); });
  } else {
    conformance::thrown_by<Timeout>([&] { reduce(x, root, slow_sum, world(), {.timeout = 100ms}); });
#if !defined(__SANITIZE_THREAD__)  // it would see that both use the memory, not that what was read is not taken
    std::fill(x.begin(), x.end(), -1.0);
#endif
    ++given_up;
  }
}
