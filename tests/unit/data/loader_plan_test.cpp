#include "unisono/loader_plan.h"

#include <gtest/gtest.h>

#include "covers.h"
#include "unisono/error.h"
#include "unisono/launch.h"

using namespace unisono;
using Sampling = LoaderRequest::Sampling;
using Sampler = LoaderPlan::Sampler;

namespace {

LoaderPlan of_batch(std::size_t batch, int ranks, BatchSplit split = BatchSplit::floor, int rank = 0) {
  return plan_loader({.batch_size = batch, .split = split, .dataset_size = 1000}, {.rank = rank, .world_size = ranks});
}
int workers(int asked, int processes) {
  return plan_loader({.num_workers = asked}, {.world_size = processes, .nproc_per_node = processes}).num_workers;
}

}  // namespace

// Alone, everything stays as it was asked for.
TEST(LoaderPlan, ThePlanChangesNothingForOneRank) {
  COVERS("A-01");
  const LoaderPlan plan = plan_loader({.batch_size = 30, .num_workers = 7, .shuffle = true, .drop_last = true, .dataset_size = 100}, {});
  EXPECT_EQ(plan.batch_size, 30U);
  EXPECT_EQ(plan.total_batch_size, 30U);
  EXPECT_EQ(plan.num_workers, 7);
  EXPECT_EQ(plan.sampler, Sampler::none);
  EXPECT_TRUE(plan.loader_shuffles);
  EXPECT_TRUE(plan.drop_last);
  EXPECT_TRUE(plan.warnings.empty() && plan.notes.empty());
  EXPECT_EQ(plan_loader({.dataset_size = 100, .sampling = Sampling::other}, {}).sampler, Sampler::given);
}

// The batch is meant for all ranks together; what the division loses is said.
TEST(LoaderPlan, ThePlanSharesOutTheBatch) {
  COVERS("A-02", "K-41", "Q-20");
  EXPECT_EQ(of_batch(32, 8).batch_size, 4U);
  EXPECT_EQ(of_batch(32, 8).total_batch_size, 32U);
  EXPECT_TRUE(of_batch(32, 8).notes.empty());
  EXPECT_EQ(of_batch(30, 8).batch_size, 3U);
  EXPECT_EQ(of_batch(30, 8).total_batch_size, 24U);
  ASSERT_EQ(of_batch(30, 8).notes.size(), 1U);
  EXPECT_NE(of_batch(30, 8).notes[0].find("24 in all"), std::string::npos);
  EXPECT_EQ(of_batch(16, 8).batch_size, 2U);
}

// A batch smaller than the ranks are many is one rank's, and the plan says what that makes in all.
TEST(LoaderPlan, ThePlanTakesASmallBatchAsOneRanks) {
  COVERS("A-03");
  const LoaderPlan plan = of_batch(1, 8);
  EXPECT_EQ(plan.batch_size, 1U);
  EXPECT_EQ(plan.total_batch_size, 8U);
  EXPECT_EQ(plan.notes.size(), 1U);
}

TEST(LoaderPlan, ThePlanLeavesAnAbsentBatchAlone) {
  COVERS("A-04");
  const LoaderPlan plan = plan_loader({.dataset_size = 10}, {.rank = 1, .world_size = 4});
  EXPECT_FALSE(plan.batch_size.has_value());
  EXPECT_TRUE(plan.batch_sizes.empty());
  EXPECT_EQ(plan.total_batch_size, 0U);
}

// The other two ways to share out.
TEST(LoaderPlan, ThePlanKnowsOtherSplits) {
  COVERS("C-19", "Q-20");
  std::size_t sum = 0;
  for (int r = 0; r < 8; ++r) {
    const LoaderPlan plan = of_batch(30, 8, BatchSplit::even_remainder, r);
    EXPECT_EQ(plan.batch_size, r < 6 ? 4U : 3U);
    EXPECT_EQ(plan.total_batch_size, 30U);
    EXPECT_EQ(plan.batch_sizes, (std::vector<std::size_t>{4, 4, 4, 4, 4, 4, 3, 3}));
    sum += *plan.batch_size;
  }
  EXPECT_EQ(sum, 30U);
  EXPECT_EQ(of_batch(30, 8, BatchSplit::per_rank).batch_size, 30U);
  EXPECT_EQ(of_batch(30, 8, BatchSplit::per_rank).total_batch_size, 240U);
  EXPECT_THROW(static_cast<void>(of_batch(7, 8, BatchSplit::even_remainder)), InvalidArgument);
}

// Workers are shared out among the processes of a host, rounded up; fewer than these stay as they are.
TEST(LoaderPlan, ThePlanSharesOutTheWorkers) {
  COVERS("A-05", "A-06");
  EXPECT_EQ(workers(10, 4), 3);
  EXPECT_EQ(workers(2, 2), 1);
  EXPECT_EQ(workers(0, 4), 0);
  EXPECT_EQ(workers(0x7fffffff, 2), 0x40000000);
  EXPECT_EQ(workers(3, 4), 3);
  EXPECT_EQ(plan_loader({.num_workers = 10}, {.world_size = 8, .nproc_per_node = 4}).total_workers, 12);
}

// A data set with a length gets a distributed sampler, which shuffles if and only if that was asked for, as one rank does.
TEST(LoaderPlan, ThePlanGivesADistributedSampler) {
  COVERS("A-07", "K-41");
  for (const bool shuffle : {false, true}) {
    const LoaderPlan plan = plan_loader({.shuffle = shuffle, .dataset_size = 10}, {.rank = 1, .world_size = 2});
    EXPECT_EQ(plan.sampler, Sampler::distributed);
    EXPECT_EQ(plan.sampler_shuffles, shuffle);
    EXPECT_FALSE(plan.loader_shuffles);
    EXPECT_EQ(plan_loader({.shuffle = shuffle, .dataset_size = 10}, {}).loader_shuffles, shuffle);
  }
}

// A distributed sampler is used as it is; one of another rank or world is warned of.
TEST(LoaderPlan, ThePlanComparesAGivenDistributedSampler) {
  COVERS("A-08");
  const auto given = [](int rank, int replicas) {
    return plan_loader({.dataset_size = 10, .sampling = Sampling::distributed, .given_rank = rank, .given_replicas = replicas},
                       {.rank = 1, .world_size = 4});
  };
  EXPECT_EQ(given(1, 4).sampler, Sampler::given);
  EXPECT_TRUE(given(1, 4).warnings.empty());
  ASSERT_EQ(given(2, 5).warnings.size(), 2U);
  EXPECT_NE(given(2, 5).warnings[0].find("rank 2"), std::string::npos);
  EXPECT_NE(given(2, 5).warnings[1].find("5 replicas"), std::string::npos);
  EXPECT_EQ(given(1, 5).warnings.size(), 1U);
}

TEST(LoaderPlan, ThePlanWrapsAnyOtherSampler) {
  COVERS("A-09");
  EXPECT_EQ(plan_loader({.dataset_size = 10, .sampling = Sampling::other}, {.rank = 0, .world_size = 2}).sampler, Sampler::proxy);
}

// Refused alike for one rank and for many.
TEST(LoaderPlan, ThePlanRefusesShuffleWithASampler) {
  COVERS("A-10", "K-27");
  for (const int ranks : {1, 2}) {
    for (const Sampling sampling : {Sampling::distributed, Sampling::other, Sampling::batch_sampler}) {
      EXPECT_THROW(static_cast<void>(plan_loader({.shuffle = true, .dataset_size = 10, .sampling = sampling}, {.world_size = ranks})),
                   InvalidArgument);
    }
  }
}

TEST(LoaderPlan, ThePlanLeavesABatchSamplerAlone) {
  COVERS("A-11");
  const LoaderPlan plan = plan_loader({.dataset_size = 10, .sampling = Sampling::batch_sampler}, {.rank = 0, .world_size = 2});
  EXPECT_EQ(plan.sampler, Sampler::given);
  ASSERT_EQ(plan.warnings.size(), 1U);
  EXPECT_NE(plan.warnings[0].find("batch sampler"), std::string::npos);
}

TEST(LoaderPlan, ThePlanGivesNoSamplerToADataSetWithoutLength) {
  COVERS("A-12");
  const LoaderPlan plan = plan_loader({.batch_size = 8}, {.rank = 0, .world_size = 2});
  EXPECT_EQ(plan.sampler, Sampler::none);
  EXPECT_EQ(plan.batch_size, 4U);
  ASSERT_EQ(plan.notes.size(), 1U);
  EXPECT_NE(plan.notes[0].find("different samples"), std::string::npos);
}

// drop_last is of batches: the loader's, while the sampler still pads.
TEST(LoaderPlan, ThePlanHandsDropLastToTheLoader) {
  COVERS("A-13");
  const LoaderPlan plan = plan_loader({.drop_last = true, .dataset_size = 10}, {.rank = 0, .world_size = 4});
  EXPECT_TRUE(plan.drop_last);
  EXPECT_EQ(plan.sampler, Sampler::distributed);
}

TEST(LoaderPlan, ThePlanRefusesWhatMakesNoSense) {
  EXPECT_THROW(static_cast<void>(of_batch(0, 1)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(plan_loader({.num_workers = -1}, {})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(plan_loader({}, {.rank = 2, .world_size = 2})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(plan_loader({}, {.world_size = 2, .nproc_per_node = 0})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(plan_loader({}, {.world_size = 2, .nproc_per_node = 3})), InvalidArgument);
}

// For this process, by its world.
TEST(LoaderPlan, ThePlanTakesThePlaceFromTheWorld) {
  COVERS("A-02", "A-05");
  run_threads(4, [](int rank) {
    const LoaderPlan plan = plan_loader({.batch_size = 10, .split = BatchSplit::even_remainder, .num_workers = 6, .dataset_size = 10});
    EXPECT_EQ(plan.batch_size, rank < 2 ? 3U : 2U);
    EXPECT_EQ(plan.num_workers, 2);
  });
}
