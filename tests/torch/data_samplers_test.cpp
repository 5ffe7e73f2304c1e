// auto_dataloader with samplers and data sets of any kind: what is shared out, and what is used as it is.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>

#include "covers.h"
#include "data_testing.h"
#include "unisono/torch/data.h"
#include "unisono/unisono.h"

namespace unisono {
namespace {

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

// All samples that a sampler yields on rank 0 are shared out, and no global generator is touched by the others.
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

}  // namespace
}  // namespace unisono
