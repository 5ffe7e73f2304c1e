// The trial that finds how ranks hand data over faster, and what follows from it.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <latch>
#include <optional>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "engines/shm/engine.h"
#include "engines/shm/copy_trial.h"
#include "two_engines.h"

using namespace unisono;

using engines::shm::CopyTrial;
using engines::shm::DirectAccess;
using engines::shm::PrivateMemory;
using two_engines::advance_both;
using two_engines::call_of;
using two_engines::n;
using two_engines::step;
using two_engines::TwoEngines;
using two_engines::TwoRanks;

namespace {

constexpr std::size_t kib = 1024;

TEST(CopyTrial, LinesCrossWhereTheSecondBecomesFaster) {
  EXPECT_EQ(engines::shm::crossing(1000, 100, 200, 3000, 300, 200), std::optional<std::size_t>(2000));
  EXPECT_EQ(engines::shm::crossing(1000, 300, 200, 3000, 900, 400), std::optional<std::size_t>(500));
  EXPECT_EQ(engines::shm::crossing(1000, 200, 100, 3000, 210, 105), std::optional<std::size_t>(0));  // always
  EXPECT_EQ(engines::shm::crossing(1000, 100, 200, 3000, 300, 400), std::nullopt);
}

// The first test that makes a trial in this process, or follows one: a trial that is given up is made again, twice at most, and then no more.
TEST(CopyTrial, ATrialIsMadeOnceInAProcess) {
  const std::optional<CopyTrial::Found> before = CopyTrial::known();
  const TwoRanks world;
  std::array ranks{DirectAccess(*world.segment, 0, false), DirectAccess(*world.segment, 1, false)};
  std::vector<float> x(n), y(2 * n);
  const CollectiveCall call = call_of(Operation::all_gather, x, y, n);
  std::size_t trials = 0;
  for (int i = 0; i < 8; ++i) {  // large calls, as two threads
    for (int r = 0; r < 2; ++r) world.segment->line(r, step).announce(ranks[static_cast<std::size_t>(r)].announce(call));
    const bool tries = world.segment->line(0, step).announcement().tries != 0;
    EXPECT_EQ(world.segment->line(1, step).announcement().tries, 0U);
    EXPECT_FALSE(tries && CopyTrial::known()) << "its result is known";
    if (tries) ++trials;
    std::thread other([&] { ranks[1].note(step); });
    ranks[0].note(step);
    other.join();
  }
  EXPECT_LE(trials, before ? 0U : 3U);
  const auto known = CopyTrial::known();
  if (known && known->from != 0) {
    EXPECT_EQ(world.segment->line(0, step).announcement().range.from, known->from >> 10);
  }
}

TEST(CopyTrial, ATrialIsGivenUpWhereTheOtherRankDoesNotAnswer) {
  const TwoRanks world;
  PrivateMemory memory(*world.segment, 0);
  memory.publish_card();
  CopyTrial trial(*world.segment, memory, step + 1);
  EXPECT_EQ(trial.lead(), std::nullopt);
}

// The slot belongs to the next step once the trial is over.
TEST(CopyTrial, ATrialIsNotOverWhileTheOtherRankReadsTheSlot) {
  const TwoRanks world;
  PrivateMemory memory(*world.segment, 0);
  memory.publish_card();
  auto& reads = world.segment->member(1).trial_reads;
  std::atomic<bool> is_over = false;
  // Rank 1 takes part, and is stopped amid its first copy.
  const std::uint32_t invitation = 1U << 10;
  world.segment->member(0).trial_partner.store(invitation | 1);
  reads.store(1);
  std::latch runs{1};
  std::thread other([&] {
    runs.count_down();
    while (world.segment->member(0).trial.load() < 63) std::this_thread::yield();
    for (const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20); std::chrono::steady_clock::now() < until;) {
      if (is_over) break;
      std::this_thread::yield();
    }
    EXPECT_FALSE(is_over);
    reads.store(0);
  });
  runs.wait();
  CopyTrial trial(*world.segment, memory, step + 1);
  static_cast<void>(trial.lead());
  is_over = true;
  other.join();
}

TEST(CopyTrial, TwoRanksFindASize) {
  const TwoRanks world;
  PrivateMemory first(*world.segment, 0), second(*world.segment, 1);
  first.publish_card();
  second.publish_card();
  std::optional<CopyTrial::Found> found;
  const base::Deadline deadline(std::chrono::seconds(60));
  for (std::uint32_t trial = 0; !found && !deadline.passed(); ++trial) {  // on a busy machine a rank may be away for longer than the other one waits
    std::thread other([&] { CopyTrial(*world.segment, second, step + 1, trial).follow(1); });
    found = CopyTrial(*world.segment, first, step + 1, trial).lead();
    other.join();
  }
  ASSERT_TRUE(found);
  EXPECT_GE(found->from, CopyTrial::smallest_size);
  EXPECT_LE(found->from, CopyTrial::largest_size);
  EXPECT_EQ(CopyTrial::known(), found);
}

// A system that forbids reading leaves the choice between the two ways of writing a slot.
TEST(CopyTrial, MemoryThatCannotBeReadIsNotTimed) {
  const TwoRanks world;
  PrivateMemory first(*world.segment, 0), second(*world.segment, 1);
  second.publish_card();
  std::optional<CopyTrial::Found> found;
  const base::Deadline deadline(std::chrono::seconds(60));
  for (std::uint32_t trial = 0; (!found || found->from != 0) && !deadline.passed(); ++trial) {
    first.publish_card();
    world.segment->member(0).private_memory.address = 0;  // nobody has memory there
    std::thread other([&] { CopyTrial(*world.segment, second, step + 1, trial).follow(1); });
    found = CopyTrial(*world.segment, first, step + 1, trial).lead();
    other.join();
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->from, 0U);
}

// All ranks write their slots as rank 0 says.
TEST(Staging, StagingFollowsRank0) {
  const TwoRanks world;
  std::array ranks{DirectAccess(*world.segment, 0, true), DirectAccess(*world.segment, 1, true)};
  std::vector<float> x(n), y(2 * n);
  const CollectiveCall call = call_of(Operation::all_gather, x, y, n);
  const auto rank_1_notes = [&](bool streams, bool is_crowded) {
    DirectAccess rank(*world.segment, 1, is_crowded);
    for (int r = 0; r < 2; ++r) {
      auto announcement = ranks[static_cast<std::size_t>(r)].announce(call);
      announcement.streams = r == 0 && streams;
      world.segment->line(r, step).announce(announcement);
    }
    rank.note(step);
    return engines::shm::Staging::is_past_caches(64 * kib);
  };
  EXPECT_TRUE(rank_1_notes(true, false));
  EXPECT_FALSE(rank_1_notes(false, false));
  EXPECT_TRUE(rank_1_notes(true, true));
  EXPECT_TRUE(rank_1_notes(true, false));
  EXPECT_FALSE(engines::shm::Staging::is_past_caches(1 * kib));
  EXPECT_FALSE(rank_1_notes(false, false));
}

// A rank that shares processors takes part if it runs on another one than rank 0 said.
TEST(CopyTrial, RanksThatShareProcessorsTryOnTwoOfThem) {
  cpu_set_t all, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  int here = 0;
  while (!CPU_ISSET(here, &all)) ++here;
  CPU_ZERO(&one);
  CPU_SET(here, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const auto takes_part = [&](int processor_of_rank_0) {
    const TwoRanks world;
    std::array ranks{DirectAccess(*world.segment, 0, true), DirectAccess(*world.segment, 1, true)};
    std::vector<float> x(n), y(2 * n);
    const CollectiveCall call = call_of(Operation::all_gather, x, y, n);
    for (int r = 0; r < 2; ++r) {
      auto announcement = ranks[static_cast<std::size_t>(r)].announce(call);
      if (r == 0) announcement.tries = 1, announcement.processor = static_cast<std::uint16_t>(processor_of_rank_0);
      world.segment->line(r, step).announce(announcement);
    }
    ranks[1].note(step);
    return world.segment->member(0).trial_partner != 0U;
  };
  EXPECT_TRUE(takes_part(here + 1));
  EXPECT_FALSE(takes_part(here));
  ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
}

TEST(CopyTrial, ATrialHasOnePartner) {
  const TwoRanks world;
  PrivateMemory second(*world.segment, 1);
  CopyTrial(*world.segment, second, step + 1, 5).follow(1);
  const std::uint32_t partner = world.segment->member(0).trial_partner;
  CopyTrial(*world.segment, second, step + 1, 5).follow(7);
  CopyTrial(*world.segment, second, step + 1, 4).follow(7);  // a trial before it
  EXPECT_EQ(world.segment->member(0).trial_partner, partner);
  CopyTrial(*world.segment, second, step + 1, 6).follow(7);
  EXPECT_NE(world.segment->member(0).trial_partner, partner);
}

// Each rank writes its slots in its own way, which may change between two steps, and still cuts a call as the others do.
TEST(Staging, StagingDoesNotChangeTheSteps) {
  for (const Operation operation : {Operation::broadcast, Operation::scatter, Operation::all_gather, Operation::all_to_all, Operation::all_reduce}) {
    TwoEngines world;
    constexpr std::size_t count = 100'000;  // a block of 400 KiB: more than a step, less than a slot
    std::vector<float> in(2 * count, 1.0F), in2(2 * count, 2.0F), out(2 * count, 1.0F), out2(2 * count);
    engines::shm::Staging::set_past_caches(true);
    const auto a = engines::shm::make_collective(world.first, call_of(operation, in, out, count));
    static_cast<void>(a->advance());
    engines::shm::Staging::set_past_caches(false);
    const auto b = engines::shm::make_collective(world.second, call_of(operation, in2, out2, count));
    EXPECT_EQ(advance_both(*a, *b), (std::array{true, true})) << to_string(operation);
    const std::vector<float> received(count, operation == Operation::all_reduce ? 3.0F : 1.0F);
    EXPECT_TRUE(std::equal(received.begin(), received.end(), out2.begin())) << to_string(operation);
  }
}

}  // namespace
