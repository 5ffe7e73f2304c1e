// Ranks that are threads, some of which bind themselves to a processor.
#include <gtest/gtest.h>
#include <sched.h>

#include <vector>

#include "unisono/unisono.h"

using namespace unisono;

// All ranks of a group count as sharing processors, or none does: else they would cut calls differently.
TEST(BoundThreads, AThreadThatBindsItselfReducesAsTheOthersDo) {
  run_threads(2, [] {
    if (rank() == 0) {
      cpu_set_t all, one;
      ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
      int first = 0;
      while (!CPU_ISSET(first, &all)) ++first;
      CPU_ZERO(&one);
      CPU_SET(first, &one);
      ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    }
    const auto group = new_group({0, 1});
    for (int i = 0; i < 8; ++i) {
      std::vector<float> x(100, static_cast<float>(rank() + i));
      all_reduce(x, ReduceOp::sum, *group);
      EXPECT_EQ(x, std::vector<float>(100, static_cast<float>(1 + 2 * i)));
    }
  });
}
