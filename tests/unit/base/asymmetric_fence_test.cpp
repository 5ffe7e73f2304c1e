// A waiter that goes to sleep, with and without the system's part of the fence.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <chrono>

#include "base/notifier.h"
#include "group/progress/backoff.h"
#include "refused_call.h"

namespace unisono {
namespace {

using namespace std::chrono_literals;

/// Returns how often a waiter that sleeps looks before it has slept for `at_most`, and nobody has woken it. From the look `found_at` on there is
/// something.
int looks_of(int found_at, std::chrono::nanoseconds at_most) {
  base::Notifier notifier;
  group::Backoff backoff(&notifier, true);
  int looks = 0;
  while (looks == 0) backoff.pause([&] { return ++looks == found_at; }, at_most);  // the first ones only spin and give way
  return looks;
}

TEST(AsymmetricFence, ASleeperLooksOnceWhereTheSystemCarriesOutTheFence) {
  if (!base::AsymmetricFence::heavy()) GTEST_SKIP() << "this system has no membarrier with MEMBARRIER_CMD_GLOBAL_EXPEDITED";
  EXPECT_EQ(looks_of(2, 1ms), 1);
}

// The pause would last for an hour otherwise.
TEST(AsymmetricFence, ASleeperLooksTwiceWhereTheSystemRefuses) {
  EXPECT_EQ(testing::status_where_refused(SYS_membarrier, ENOSYS, [] { return !base::AsymmetricFence::heavy() && looks_of(2, 1h) == 2; }), 0);
}

TEST(AsymmetricFence, ASleeperDoesNotSleepOnWhatItHasSeen) { EXPECT_EQ(looks_of(1, 1h), 1); }

}  // namespace
}  // namespace unisono
