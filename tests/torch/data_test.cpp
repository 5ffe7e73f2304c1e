// auto_dataloader: each rank's samples of every batch; and seeds. data_samplers_test.cpp has samplers and data sets of other kinds.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <mutex>

#include "covers.h"
#include "data_testing.h"
#include "unisono/torch/data.h"
#include "unisono/unisono.h"

namespace unisono {
namespace {

INSTANTIATE_TEST_SUITE_P(TorchData, Ranks, testing::Values(1, 2, 3, 4));

// The batches of all ranks together are those of one process, and so is their order.
TEST_P(Ranks, RanksTogetherReadWhatOneReads) {
  COVERS("A-01", "A-02", "A-07", "A-20", "A-21", "A-23");
  constexpr std::size_t n = 48, batch = 12;
  std::vector<std::size_t> order;
  {
    const auto alone = auto_dataloader(Numbers(n), batch, {.seed = 5});
    order = samples(*alone);
    EXPECT_EQ(alone->options().batch_size, batch);
    std::vector<std::size_t> sorted = order;
    std::ranges::sort(sorted);
    EXPECT_FALSE(std::ranges::is_sorted(order));
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(sorted[i], i);
  }
  run_threads(GetParam(), [&] {
    const auto ranks = static_cast<std::size_t>(world_size());
    const auto loader = auto_dataloader(Numbers(n), batch, {.seed = 5});
    EXPECT_EQ(loader->options().batch_size, batch / ranks);
    EXPECT_EQ(loader->plan().total_batch_size, batch);
    const std::vector<std::size_t> own = samples(*loader);
    ASSERT_EQ(own.size(), n / ranks);
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i], order[i * ranks + static_cast<std::size_t>(rank())]);
  });
}

TEST(TorchData, BatchSizesThatDoNotShareOut) {
  COVERS("A-03", "A-04", "A-13");
  run_threads(4, [] {
    EXPECT_EQ(auto_dataloader(Numbers(40), 3)->options().batch_size, 3U);
    EXPECT_EQ(auto_dataloader(Numbers(40))->options().batch_size, 1U);
    EXPECT_EQ(auto_dataloader(Numbers(40), 30)->options().batch_size, 7U);
    EXPECT_EQ(auto_dataloader(Numbers(40), 30, {.split = BatchSplit::per_rank})->options().batch_size, 30U);
    const auto exact = auto_dataloader(Numbers(40), 30, {.split = BatchSplit::even_remainder});
    EXPECT_EQ(exact->options().batch_size, rank() < 2 ? 8U : 7U);
    EXPECT_EQ(all_reduce(samples(*exact).size()), 60U);  // two steps of 30
    // 42 samples: 11 each, two of them twice; what is dropped are batches, not samples
    EXPECT_EQ(batch_sizes(*auto_dataloader(Numbers(42), 16)), (std::vector<std::size_t>{4, 4, 3}));
    const auto dropping = auto_dataloader(Numbers(42), DataLoaderOptions(16).drop_last(true));
    EXPECT_TRUE(dropping->options().drop_last);
    EXPECT_EQ(batch_sizes(*dropping), (std::vector<std::size_t>{4, 4}));
    EXPECT_NE(refusal<InvalidArgument>([] { auto_dataloader(Numbers(4), 0); }).find("batch size is 0"), std::string::npos);
  });
}

TEST(TorchData, WorkersAreThoseOfTheHost) {
  COVERS("A-05", "A-06");
  run_threads(4, [] {
    const auto workers = [](std::size_t n) { return auto_dataloader(Numbers(8), DataLoaderOptions(4).workers(n))->options().workers; };
    EXPECT_EQ(workers(10), 3U);
    EXPECT_EQ(workers(4), 1U);
    EXPECT_EQ(workers(3), 3U);
    EXPECT_EQ(workers(0), 0U);
    const auto loader = auto_dataloader(Numbers(32), DataLoaderOptions(8).workers(8), {.shuffle = false});
    std::vector<std::size_t> expected(8);
    for (std::size_t i = 0; i < 8; ++i) expected[i] = i * 4 + static_cast<std::size_t>(rank());
    EXPECT_EQ(samples(*loader), expected);
    EXPECT_EQ(samples(*loader), expected);
  });
}

// Samples are repeated from the beginning, as often as it takes.
TEST(TorchData, PaddingComesFromTheBeginning) {
  COVERS("A-22");
  run_threads(4, [] {
    const auto loader = auto_dataloader(Numbers(2), 4, {.shuffle = false});
    EXPECT_EQ(samples(*loader), std::vector<std::size_t>{static_cast<std::size_t>(rank()) % 2});
    const auto five = auto_dataloader(Numbers(5), 4, {.shuffle = false});
    EXPECT_EQ(samples(*five), (std::vector<std::vector<std::size_t>>{{0, 4}, {1, 0}, {2, 1}, {3, 2}}[static_cast<std::size_t>(rank())]));
  });
}

// 481 samples among 2, 3 and 4 ranks: an evaluation counts each once.
TEST_P(Ranks, RanksReadEachSampleOnceWhereTheLoaderIsExact) {
  COVERS("A-22");
  run_threads(GetParam(), [] {
    const auto loader = auto_dataloader(Numbers(481), 32, {.shuffle = false, .exact = true});
    std::vector<std::size_t> all;
    for (const auto& part : all_gather_object(samples(*loader))) all.insert(all.end(), part.begin(), part.end());
    std::ranges::sort(all);
    ASSERT_EQ(all.size(), 481U);
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
    const auto few = auto_dataloader(Numbers(1), 4, {.exact = true});
    EXPECT_EQ(samples(*few).size(), rank() == 0 ? 1U : 0U);
    const auto drawn = auto_dataloader(Numbers(7), torch::data::samplers::SequentialSampler(7), 4, {.exact = true});
    EXPECT_EQ(all_reduce(samples(*drawn).size()), 7U);
    EXPECT_THROW(auto_dataloader(Numbers(7), DistributedSampler(7), 4, {.exact = true}), InvalidArgument);
    EXPECT_THROW(auto_dataloader(Numbers(7), DataLoaderOptions(4).drop_last(true), {.exact = true}), InvalidArgument);
  });
}

// Every epoch has an order of its own, without a call; set_epoch brings one back.
TEST_P(Ranks, EpochsGoOnByThemselves) {
  COVERS("A-25", "K-41");
  run_threads(GetParam(), [] {
    const auto loader = auto_dataloader(Numbers(24), 4);
    const auto first = samples(*loader), second = samples(*loader), third = samples(*loader);
    EXPECT_EQ(loader->epoch(), 2U);
    EXPECT_NE(first, second);
    EXPECT_NE(second, third);
    loader->set_epoch(1);
    EXPECT_EQ(samples(*loader), second);
    EXPECT_EQ(samples(*loader), third);
    loader->set_epoch(0, 2);  // in the middle: two batches are done
    const std::size_t own = loader->options().batch_size;
    EXPECT_EQ(samples(*loader), std::vector<std::size_t>(first.begin() + static_cast<std::ptrdiff_t>(2 * own), first.end()));
    EXPECT_EQ(samples(*loader), second);
    const auto other = auto_dataloader(Numbers(24), 4, {.seed = 1});
    EXPECT_NE(samples(*other), first);
  });
}

TEST(TorchData, TransformsStayAsTheyAre) {
  run_threads(2, [] {
    const auto loader = auto_dataloader(Numbers(8).map(torch::data::transforms::Stack<>()), 8, {.shuffle = false});
    int batches = 0;
    for (auto& batch : *loader) {
      EXPECT_TRUE(torch::equal(batch.data, torch::arange(4, torch::kFloat) * 2 + rank()));
      EXPECT_TRUE(torch::equal(batch.target, torch::arange(4) * 2 + 100 + rank()));
      ++batches;
    }
    EXPECT_EQ(batches, 1);
  });
}

// Rank 0 tells what became of the options, where LibTorch is asked to tell such things.
TEST(TorchData, RankZeroTellsTheOptions) {
  COVERS("A-17");
  const auto level = FLAGS_caffe2_log_level;
  FLAGS_caffe2_log_level = 0;
  testing::internal::CaptureStderr();
  run_threads(3, [] { (void)auto_dataloader(Numbers(9), DataLoaderOptions(10).workers(4)); });
  const std::string text = testing::internal::GetCapturedStderr();
  FLAGS_caffe2_log_level = level;
  EXPECT_NE(text.find("batch_size=3 (of 9), workers=2 (of 6 on this host)"), std::string::npos) << text;
  EXPECT_EQ(text.find("batch_size=3"), text.rfind("batch_size=3")) << text;
  EXPECT_NE(text.find("a batch of 10 among 3 ranks: 3 each, 9 in all"), std::string::npos) << text;
}

TEST(TorchData, RanksShareOneSeedOrHaveOneEach) {
  static std::mutex generator;  // of all threads
  run_threads(3, [] {
    const std::uint64_t drawn = manual_seed_all();
    EXPECT_EQ(all_gather(drawn), std::vector<std::uint64_t>(3, drawn));
    EXPECT_EQ(manual_seed_all(77 + static_cast<std::uint64_t>(rank())), 77U);  // rank 0's counts
    barrier();
    {
      const std::lock_guard<std::mutex> lock(generator);
      EXPECT_EQ(at::detail::getDefaultCPUGenerator().current_seed(), 77U);
    }
    barrier();
    EXPECT_EQ(manual_seed_all({.seed = 500, .different_per_rank = true}), 500U);
    const std::uint64_t now = at::detail::getDefaultCPUGenerator().current_seed();
    EXPECT_TRUE(now >= 500 && now < 503) << now;
  });
  EXPECT_EQ(manual_seed_all(9), 9U);
  EXPECT_EQ(at::detail::getDefaultCPUGenerator().current_seed(), 9U);
}

}  // namespace
}  // namespace unisono
