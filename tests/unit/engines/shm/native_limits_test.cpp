#include <gtest/gtest.h>

#include "coordination/coordination.h"
#include "engines/shm/segment.h"
#include "unisono/error.h"
#include "unisono/launch.h"

using namespace unisono;

// Refused before anything is made or waited for.
TEST(ShmEngine, TheEngineServesNoMoreRanksThanItHasRoomFor) {
  coordination::HostOptions options;
  options.global_ranks.resize(engines::shm::Segment::most_ranks + 1);
  EXPECT_THROW(static_cast<void>(coordination::join_host(options)), Unsupported);
  EXPECT_THROW(run_threads(engines::shm::Segment::most_ranks + 1, [] {}), InvalidArgument);
  EXPECT_THROW(run_threads(0, [] {}), InvalidArgument);
}
