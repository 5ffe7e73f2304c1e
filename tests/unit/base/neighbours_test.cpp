#include <gtest/gtest.h>

#include <sched.h>

#include <chrono>

#include "base/notifier.h"
#include "group/progress/backoff.h"

namespace unisono {
namespace {

/// Keeps the calling thread on the processor on which it is.
class Stay {
 public:
  Stay() {
    sched_getaffinity(0, sizeof before_, &before_);
    here_ = sched_getcpu();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(here_, &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~Stay() { sched_setaffinity(0, sizeof before_, &before_); }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;
  int here() const { return here_; }

 private:
  cpu_set_t before_{};
  int here_ = 0;
};

/// Returns how often a rank spins before it gives way.
int spins_of(group::Backoff backoff) {
  int spins = 0;
  for (; spins < 100'000; ++spins) {
    backoff.pause([] { return false; }, std::chrono::nanoseconds(0));
    if (!backoff.is_spinning()) break;
  }
  return spins;
}

TEST(Neighbours, NeighboursShareAProcessorWithTheOneThatWaitedThere) {
  const Stay stay;
  base::Notifier own, near, far;
  base::Neighbours neighbours(own, {&near, &far});
  EXPECT_FALSE(neighbours.share_processor()) << "no other rank has waited";
  EXPECT_EQ(own.processor(), stay.here());
  far.set_processor(stay.here() + 1);
  EXPECT_FALSE(neighbours.share_processor());
  EXPECT_FALSE(neighbours.shared_processor());
  near.set_processor(stay.here());
  EXPECT_TRUE(neighbours.share_processor());
  EXPECT_TRUE(neighbours.shared_processor());
  near.set_processor(stay.here() + 1);
  EXPECT_TRUE(neighbours.shared_processor()) << "that is what was seen last";
  EXPECT_FALSE(neighbours.share_processor());
}

TEST(Neighbours, ARankGivesWaySoonToOneOnItsProcessor) {
  const Stay stay;
  base::Notifier own, other;
  base::Neighbours neighbours(own, {&other});
  const auto spins = [&] { return spins_of(group::Backoff(&own, false, false, &neighbours)); };
  const int alone = spins_of(group::Backoff(&own, false));
  EXPECT_EQ(spins(), alone) << "the other rank is somewhere else";
  other.set_processor(stay.here());
  EXPECT_LT(spins(), alone / 10) << "the first time it asks after some spins";
  EXPECT_LT(spins(), 10) << "then it knows it from the last time";
  other.set_processor(stay.here() + 1);
  EXPECT_EQ(spins(), alone) << "the other rank is elsewhere again";
}

}  // namespace
}  // namespace unisono
