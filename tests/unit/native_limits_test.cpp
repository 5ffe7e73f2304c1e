#include <gtest/gtest.h>

#include "backends/native/native.h"
#include "engine/cooperative/segment.h"
#include "unisono/error.h"
#include "unisono/launch.h"

using namespace unisono;

// Refused before anything is made or waited for.
TEST(Native, ServesNoMoreRanksThanItHasRoomFor) {
  BackendOptions options;
  options.global_ranks.resize(engine::Segment::most_ranks + 1);
  EXPECT_THROW(static_cast<void>(backends::make_native(options)), Unsupported);
  EXPECT_THROW(run_threads(engine::Segment::most_ranks + 1, [] {}), InvalidArgument);
  EXPECT_THROW(run_threads(0, [] {}), InvalidArgument);
}
