// The trial that finds how distant the cores are, and how slots are written then.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "engines/shm/engine.h"
#include "engines/shm/distance_trial.h"
#include "engines/shm/staging.h"
#include "engines/shm/staging_choice.h"
#include "two_engines.h"
#include "two_rings.h"

using namespace unisono;

using engines::shm::DistanceTrial;
using engines::shm::Staging;
using engines::shm::StagingChoice;
using engines::shm::StagingWord;
using two_engines::advance_both;
using two_engines::call_of;
using two_engines::step;
using two_engines::TwoEngines;
using two_engines::TwoRanks;

namespace {

constexpr std::size_t kib = 1024;

/// Tells the first step of a call, and follows it on both ranks, as two threads. Returns the word of rank 0.
StagingWord follow_both(const TwoRanks& world, std::array<StagingChoice, 2>& ranks, bool fills_slots) {
  const StagingWord told = ranks[0].word(fills_slots);
  world.segment->line(0, step).set_staging(told);
  EXPECT_EQ(ranks[1].word(fills_slots), StagingWord::nothing);
  std::atomic<bool> runs = false;
  std::thread other([&] {
    runs = true;
    ranks[1].follow(step);
  });
  while (!runs) std::this_thread::yield();
  ranks[0].follow(step);
  other.join();
  return told;
}

bool is_made(const TwoRanks& world, std::array<StagingChoice, 2>& ranks, bool fills_slots) {
  return follow_both(world, ranks, fills_slots) == StagingWord::trial;
}

TEST(DistanceTrial, ATrialIsMadeInTheFirstCallAndNowAndThenInThoseThatFillSlots) {
  Staging::set(StagingWord::nothing);
  const TwoRanks world;
  std::array ranks{StagingChoice(*world.segment, 0, false), StagingChoice(*world.segment, 1, false)};
  EXPECT_TRUE(is_made(world, ranks, false));
  const base::Deadline deadline(std::chrono::seconds(60));
  // On a busy machine a trial may be given up. It is made again after a while.
  while (Staging::word() == StagingWord::nothing && !deadline.passed()) follow_both(world, ranks, false);
  ASSERT_NE(Staging::word(), StagingWord::nothing);
  for (const auto until = base::Clock::now() + std::chrono::milliseconds(500); base::Clock::now() < until;)
    EXPECT_FALSE(is_made(world, ranks, false));
  std::size_t calls = 1;
  while (!is_made(world, ranks, true) && !deadline.passed()) ++calls;
  EXPECT_LE(calls, 64U);
  EXPECT_FALSE(deadline.passed());
  EXPECT_FALSE(is_made(world, ranks, true)) << "the next call is early";
}

TEST(DistanceTrial, RanksThatShareProcessorsMakeNoTrial) {
  Staging::set(StagingWord::nothing);
  const TwoRanks world;
  StagingChoice crowded(*world.segment, 0, true);
  EXPECT_EQ(crowded.word(true), StagingWord::nothing);
}

TEST(DistanceTrial, ATrialIsGivenUpWhereTheOtherRankDoesNotAnswer) {
  const TwoRanks world;
  DistanceTrial trial(*world.segment);
  EXPECT_EQ(trial.lead(), std::nullopt);
}

// Rank 1 answers as late as a core that is far away, and so in each turn.
TEST(DistanceTrial, LateAnswersMeanDistantCores) {
  const TwoRanks world;
  std::optional<bool> found;
  const base::Deadline deadline(std::chrono::seconds(60));
  for (std::uint32_t number = 0; !found && !deadline.passed(); ++number) {  // on a busy machine rank 1 may be away for longer than rank 0 waits
    std::atomic<bool> is_over = false;
    std::thread other([&] {
      world.segment->member(1).trial_number.store(number + 1);
      std::uint32_t last = 0;
      while (!is_over) {
        const std::uint32_t turn = world.segment->member(0).trial.load();
        if (turn == std::exchange(last, turn)) continue;
        for (const auto until = base::Clock::now() + std::chrono::microseconds(1); base::Clock::now() < until;) {
        }
        world.segment->member(1).trial.store(turn);
      }
    });
    found = DistanceTrial(*world.segment, number).lead();
    is_over = true;
    other.join();
  }
  EXPECT_EQ(found, true);
}

TEST(DistanceTrial, BothRanksLearnTheResult) {
  const TwoRanks world;
  std::optional<bool> found, told;
  const base::Deadline deadline(std::chrono::seconds(60));
  for (std::uint32_t trial = 0; !told && !deadline.passed(); ++trial) {  // on a busy machine a rank may be away for longer than the other one waits
    std::thread other([&] { told = DistanceTrial(*world.segment, trial).follow(); });
    found = DistanceTrial(*world.segment, trial).lead();
    other.join();
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(told, found);
}

// All ranks write their slots as rank 0 says.
TEST(Staging, StagingFollowsRank0) {
  const TwoRanks world;
  StagingChoice rank(*world.segment, 1, false);
  const auto rank_1_hears = [&](StagingWord word) {
    world.segment->line(0, step).set_staging(word);
    rank.follow(step);
    return Staging::word();
  };
  Staging::set(StagingWord::nothing);
  EXPECT_EQ(rank_1_hears(StagingWord::nothing), StagingWord::nothing);
  EXPECT_EQ(rank_1_hears(StagingWord::past_caches), StagingWord::past_caches);
  EXPECT_TRUE(Staging::is_past_caches(64 * kib));
  EXPECT_FALSE(Staging::is_past_caches(1 * kib));
  EXPECT_EQ(StagingChoice(*world.segment, 0, false).word(false), StagingWord::past_caches);
  EXPECT_EQ(rank_1_hears(StagingWord::nothing), StagingWord::past_caches) << "a rank 0 that knows nothing changes nothing";
  EXPECT_EQ(rank_1_hears(StagingWord::cached), StagingWord::cached);
  EXPECT_FALSE(Staging::is_past_caches(64 * kib));
}

// Each rank writes its slots in its own way, which may change between two steps, and still cuts a call as the others do.
TEST(Staging, StagingDoesNotChangeTheSteps) {
  for (const Operation operation : {Operation::broadcast, Operation::scatter, Operation::all_gather, Operation::all_to_all, Operation::all_reduce}) {
    TwoEngines world;
    constexpr std::size_t count = 100'000;  // a block of 400 KiB: more than a step, less than a slot
    std::vector<float> in(2 * count, 1.0F), in2(2 * count, 2.0F), out(2 * count, 1.0F), out2(2 * count);
    Staging::set_past_caches(true);
    const auto a = engines::shm::make_collective(world.first, call_of(operation, in, out, count));
    static_cast<void>(a->advance());
    Staging::set_past_caches(false);
    const auto b = engines::shm::make_collective(world.second, call_of(operation, in2, out2, count));
    while (advance_both(*a, *b) != std::array{true, true}) ASSERT_LT(world.first.step(), 1000U) << to_string(operation);
    const std::vector<float> received(count, operation == Operation::all_reduce ? 3.0F : 1.0F);
    EXPECT_TRUE(std::equal(received.begin(), received.end(), out2.begin())) << to_string(operation);
  }
}

// Through the caches a ring is faster than the system; past them it is unless messages go in both directions.
TEST(Staging, MessagesAreLentWhereThatIsFaster) {
  constexpr std::size_t shorter = 64 * kib - 1, longer = 65 * kib;
  for (const bool past_caches : {false, true}) {
    for (const bool both_ways : {false, true}) {
      TwoRings world{base::Environment(), base::Environment()};
      world.segment->ring(0, 1).reads_sender.store(static_cast<std::uint32_t>(engines::shm::Reach::yes));
      Staging::set_past_caches(past_caches);
      world.first.note_receives(1, both_ways);
      EXPECT_EQ(world.first.lends(1, shorter), engines::MessageCarrier::Lending::no);
      EXPECT_EQ(world.first.leaves_to_receiver(1, longer), past_caches && both_ways);
    }
  }
}

// Another thread of the process may end a trial, or follow rank 0 of another group, while a message is cut into parts.
TEST(Staging, AMessageIsWholeWhileTheWayChanges) {
  TwoRings world("off", "off");
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    for (bool past_caches = false; !is_over; past_caches = !past_caches) Staging::set_past_caches(past_caches);
  });
  const Data data = data_of(64 * kib, 3);
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(world.first.try_send(1, {.bytes = data.size(), .tag = i, .kind = 0}, data.data()), MessageRing::Tried::sent);
    ASSERT_EQ(world.receive(world.second.next(0).value()), data) << "message " << i;
  }
  is_over = true;
  other.join();
}

}  // namespace
