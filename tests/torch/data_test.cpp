// auto_dataloader: each rank's samples of every batch, whatever the data set and the sampler; and seeds.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <sstream>

#include "covers.h"
#include "unisono/torch/data.h"
#include "unisono/unisono.h"

namespace unisono {
namespace {

using torch::data::DataLoaderOptions;
using Example = torch::data::Example<>;

/// Sample i is i and 100 + i.
struct Numbers : torch::data::Dataset<Numbers> {
  explicit Numbers(std::size_t n) : n_(n) {}
  Example get(std::size_t i) override { return {torch::tensor(static_cast<float>(i)), torch::tensor(static_cast<std::int64_t>(100 + i))}; }
  std::optional<std::size_t> size() const override { return n_; }
  std::size_t n_;
};

template <class Loader>
std::vector<std::size_t> samples(Loader& loader) {
  std::vector<std::size_t> all;
  for (auto& batch : loader) {
    for (const Example& example : batch) all.push_back(static_cast<std::size_t>(example.data.item().toFloat()));
  }
  return all;
}
template <class Loader>
std::vector<std::size_t> batch_sizes(Loader& loader) {
  std::vector<std::size_t> all;
  for (auto& batch : loader) all.push_back(batch.size());
  return all;
}

template <class E, class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing of the kind was thrown";
}

/// TORCH_WARN of this thread.
class Warnings : public c10::WarningHandler {
 public:
  Warnings() : before_(c10::WarningUtils::get_warning_handler()) { c10::WarningUtils::set_warning_handler(this); }
  ~Warnings() override { c10::WarningUtils::set_warning_handler(before_); }
  void process(const c10::Warning& warning) override { text += warning.msg() + "\n"; }
  std::string text = {};

 private:
  c10::WarningHandler* before_;
};

class Ranks : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { torch::set_num_threads(1); }
};
INSTANTIATE_TEST_SUITE_P(TorchData, Ranks, testing::Values(1, 2, 3, 4));

// The batches of all ranks together are those of one process, and so is their order.
TEST_P(Ranks, TogetherTheyReadWhatOneReads) {
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

TEST(TorchData, ASamplerIsSavedAndLoadedAsTorchsAre) {
  run_threads(2, [] {
    RankSampler sampler(DistributedSampler(20, {.seed = 3}));
    sampler.reset();
    sampler.reset();
    const auto begin = sampler.next(4);
    torch::serialize::OutputArchive out(std::make_shared<torch::jit::CompilationUnit>());
    sampler.save(out);
    std::stringstream file;
    out.save_to(file);
    const auto rest = sampler.next(100);
    EXPECT_FALSE(sampler.next(1).has_value());

    RankSampler again(DistributedSampler(20, {.seed = 3}));
    torch::serialize::InputArchive in;
    in.load_from(file);
    again.load(in);
    EXPECT_EQ(again.epoch(), 1U);
    EXPECT_EQ(again.samples_done(), 4U);
    EXPECT_FALSE(again.next(1).has_value());  // an epoch begins with reset
    again.reset();
    EXPECT_EQ(again.next(100), rest);
    EXPECT_NE(refusal<Unsupported>([&] { again.reset(7); }).find("size"), std::string::npos);
    EXPECT_EQ(again.rank(), rank());
    EXPECT_EQ(again.replicas(), 2);
  });
}

TEST(TorchData, DistributedSamplersAreUsedAsTheyAre) {
  COVERS("A-08", "A-24");
  run_threads(4, [] {
    Warnings warnings;
    const auto fits = auto_dataloader(Numbers(8), DistributedSampler(8, {.shuffle = false}), 4);
    EXPECT_EQ(samples(*fits), (std::vector<std::size_t>{static_cast<std::size_t>(rank()), static_cast<std::size_t>(rank()) + 4}));
    EXPECT_EQ(warnings.text, "");
    const int other = (rank() + 1) % 4;
    const auto strange = auto_dataloader(Numbers(10), DistributedSampler(10, {.num_replicas = 5, .rank = other, .shuffle = false}), 4);
    EXPECT_EQ(samples(*strange), (std::vector<std::size_t>{static_cast<std::size_t>(other), static_cast<std::size_t>(other) + 5}));
    EXPECT_NE(warnings.text.find("is of rank " + std::to_string(other) + ", this process is rank " + std::to_string(rank())), std::string::npos);
    EXPECT_NE(warnings.text.find("5 replicas, the world has 4"), std::string::npos);
    warnings.text.clear();
    // torch's own, which shuffle by epoch too
    const auto torchs = auto_dataloader(Numbers(8), torch::data::samplers::DistributedSequentialSampler(8, 4, static_cast<std::size_t>(rank())), 4);
    EXPECT_EQ(samples(*torchs), (std::vector<std::size_t>{2 * static_cast<std::size_t>(rank()), 2 * static_cast<std::size_t>(rank()) + 1}));
    EXPECT_EQ(warnings.text, "");
    (void)auto_dataloader(Numbers(8), torch::data::samplers::DistributedRandomSampler(8, 3, 1), 4);
    EXPECT_NE(warnings.text.find("3 replicas"), std::string::npos);
    EXPECT_THROW(auto_dataloader(Numbers(8), DistributedSampler(8, {.num_replicas = 4, .rank = 4})), InvalidArgument);
  });
}

/// Draws with replacement, the first items more often: unlike on every rank, unless one draws for all.
class Weighted : public torch::data::samplers::Sampler<> {
 public:
  Weighted(std::size_t items, std::size_t draws, unsigned seed) : items_(items), draws_(draws), engine_(seed) {}
  void reset(std::optional<std::size_t>) override { done_ = 0; }
  std::optional<std::vector<std::size_t>> next(std::size_t batch) override {
    if (draws_ == failing) throw std::domain_error("no weights");
    std::vector<std::size_t> some;
    for (; done_ < draws_ && some.size() < batch; ++done_) some.push_back(std::min(engine_() % items_, engine_() % items_));
    if (some.empty()) return std::nullopt;
    return some;
  }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
  static constexpr std::size_t failing = 13;

 private:
  std::size_t items_, draws_, done_ = 0;
  std::mt19937 engine_;
};

// Whatever a sampler yields on rank 0 is shared out, and no global generator is touched by the others.
TEST_P(Ranks, AnyOtherSamplerIsSharedOut) {
  COVERS("A-09", "A-26", "A-27", "A-28", "A-29", "K-42");
  const auto ranks = static_cast<std::size_t>(GetParam());
  for (const unsigned seed : {1U, 2U, 3U, 4U, 5U}) {
    Weighted alone(100, 200, seed);
    std::multiset<std::size_t> expected[2];
    for (auto& epoch : expected) {
      alone.reset({});
      const auto drawn = alone.next(200);
      epoch.insert(drawn->begin(), drawn->end());
    }
    std::mutex mutex;
    std::multiset<std::size_t> read[2];
    run_threads(GetParam(), [&] {
      const auto loader = auto_dataloader(Numbers(100), Weighted(100, 200, seed + 1000 * static_cast<unsigned>(rank())), 16);
      for (auto& epoch : read) {
        const auto own = samples(*loader);
        EXPECT_EQ(own.size(), (200 + ranks - 1) / ranks);
        const std::lock_guard<std::mutex> lock(mutex);
        epoch.insert(own.begin(), own.end());
      }
    });
    if (200 % ranks != 0) continue;  // the rest is drawn anew
    for (const int epoch : {0, 1}) EXPECT_EQ(read[epoch], expected[epoch]);
  }
  run_threads(GetParam(), [] {
    const auto random = auto_dataloader(Numbers(24), torch::data::samplers::RandomSampler(24), 8);
    std::vector<std::size_t> all;
    for (const auto& part : all_gather_object(samples(*random))) all.insert(all.end(), part.begin(), part.end());
    std::ranges::sort(all);
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(all[i], i);
    const auto in_order = auto_dataloader(Numbers(24), torch::data::samplers::SequentialSampler(24), 8);
    EXPECT_EQ(samples(*in_order)[1], static_cast<std::size_t>(rank() + world_size()));

    const auto empty = auto_dataloader(Numbers(24), Weighted(24, 0, 1), 8);
    const auto failing = auto_dataloader(Numbers(24), Weighted(24, Weighted::failing, 1), 8);
    if (rank() == 0) {
      EXPECT_THROW(samples(*empty), InvalidArgument);
      EXPECT_THROW(samples(*failing), std::domain_error);
    } else {
      EXPECT_NE(refusal<PeerFailed>([&] { samples(*empty); }).find("yields none"), std::string::npos);
      EXPECT_NE(refusal<PeerFailed>([&] { samples(*failing); }).find("no weights"), std::string::npos);
    }
    EXPECT_EQ(all_reduce(1), world_size());
  });
}

TEST(TorchData, ShuffleAndASamplerAreTwoOrders) {
  COVERS("A-10");
  run_threads(2, [] {
    EXPECT_NE(refusal<InvalidArgument>([] {
                auto_dataloader(Numbers(8), torch::data::samplers::SequentialSampler(8), 4, {.shuffle = true});
              }).find("shuffle"),
              std::string::npos);
  });
}

/// Requests of its own kind: batches of neighbours.
struct Span : torch::data::samplers::CustomBatchRequest {
  Span(std::size_t from, std::size_t to) : begin(from), end(to) {}
  std::size_t size() const override { return end - begin; }
  std::size_t begin, end;
};
class Spans : public torch::data::samplers::Sampler<Span> {
 public:
  void reset(std::optional<std::size_t> = std::nullopt) override { next_ = 0; }
  std::optional<Span> next(std::size_t batch) override {
    if (next_ >= 6) return std::nullopt;
    next_ += batch;
    return Span(next_ - batch, next_);
  }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}

 private:
  std::size_t next_ = 0;
};
struct SpanNumbers : torch::data::datasets::BatchDataset<SpanNumbers, std::vector<Example>, Span> {
  std::vector<Example> get_batch(Span span) override {
    std::vector<Example> batch;
    for (std::size_t i = span.begin; i < span.end; ++i) batch.push_back(Numbers(6).get(i));
    return batch;
  }
  std::optional<std::size_t> size() const override { return 6; }
};

TEST(TorchData, SamplersOfBatchesAreUntouched) {
  COVERS("A-11");
  run_threads(2, [] {
    Warnings warnings;
    const auto loader = auto_dataloader(SpanNumbers(), Spans(), 4);
    EXPECT_EQ(samples(*loader), (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_NE(warnings.text.find("batch sampler"), std::string::npos);
  });
}

/// Counts on, its rank's own numbers.
struct Stream : torch::data::datasets::StreamDataset<Stream> {
  explicit Stream(std::size_t rank) : next(100 * rank) {}
  std::vector<Example> get_batch(std::size_t n) override {
    std::vector<Example> batch;
    for (std::size_t i = 0; i < n; ++i) batch.push_back(Numbers(0).get(next++));
    return batch;
  }
  std::optional<std::size_t> size() const override { return std::nullopt; }
  std::size_t next;
};
struct Stateful : torch::data::datasets::StatefulDataset<Stateful> {
  std::optional<std::vector<Example>> get_batch(std::size_t n) override {
    if (left == 0) return std::nullopt;
    std::vector<Example> batch;
    for (; batch.size() < n && left > 0; --left) batch.push_back(Numbers(0).get(left));
    return batch;
  }
  std::optional<std::size_t> size() const override { return std::nullopt; }
  void reset() override { left = 7; }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
  std::size_t left = 0;
};

TEST(TorchData, WhatCanOnlyBeIteratedSharesItselfOut) {
  COVERS("A-12");
  run_threads(2, [] {
    Warnings warnings;
    const auto stream = auto_dataloader(Stream(static_cast<std::size_t>(rank())), torch::data::samplers::StreamSampler(5), 4);
    const auto first = static_cast<std::size_t>(100 * rank());
    EXPECT_EQ(samples(*stream), (std::vector<std::size_t>{first, first + 1, first + 2, first + 3, first + 4}));
    EXPECT_EQ(stream->options().batch_size, 2U);
    const auto stateful = auto_dataloader(Stateful(), 6);
    EXPECT_EQ(stateful->options().batch_size, 3U);
    std::vector<std::size_t> all;
    for (auto& batch : *stateful) {
      for (const Example& example : batch) all.push_back(static_cast<std::size_t>(example.data.item().toFloat()));
    }
    EXPECT_EQ(all, (std::vector<std::size_t>{7, 6, 5, 4, 3, 2, 1}));
    EXPECT_EQ(warnings.text, "");
    EXPECT_THROW((void)auto_dataloader(Stateful(), 6, {.shuffle = true}), InvalidArgument);
    struct Unsized : Numbers {
      Unsized() : Numbers(3) {}
      std::optional<std::size_t> size() const override { return std::nullopt; }
    };
    EXPECT_NE(refusal<InvalidArgument>([] { (void)auto_dataloader(Unsized(), 2); }).find("size"), std::string::npos);
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

TEST(TorchData, OneSeedForAllOrOneForEach) {
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
