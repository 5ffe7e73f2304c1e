#include "unisono/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "covers.h"
#include "unisono/error.h"
#include "unisono/launch.h"
#include "unisono/loader_plan.h"

using namespace unisono;

namespace {

using Indices = std::vector<std::size_t>;

Indices of(std::size_t n, const SamplerOptions& options) { return DistributedSampler(n, options).indices(); }

/// Draws with replacement, item i with weight i + 1.
struct WeightedSampler {
  std::size_t items, draws_per_epoch;
  std::size_t size() const { return draws_per_epoch; }
  Indices draw(SamplerEngine& engine) const {
    Indices drawn;
    const std::size_t sum = items * (items + 1) / 2;
    for (std::size_t k = 0; k < draws_per_epoch; ++k) {
      std::size_t target = engine() % sum, item = 0;
      while (target > item) target -= ++item;
      drawn.push_back(item);
    }
    return drawn;
  }
};

}  // namespace

// As many for every rank, every item at least once, the order strided, the padding from its beginning.
TEST(Sampler, TheSamplerSharesOutEveryItem) {
  COVERS("A-20", "A-22", "A-23");
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    for (const std::size_t n : {0, 1, 2, 3, 6, 7, 8, 9, 97, 100}) {
      const auto width = static_cast<std::size_t>(ranks);
      const std::size_t each = (n + width - 1) / width;
      Indices all(each * width);
      for (int r = 0; r < ranks; ++r) {
        DistributedSampler sampler(n, {.num_replicas = ranks, .rank = r, .shuffle = false});
        EXPECT_EQ(sampler.size(), each);
        EXPECT_EQ(sampler.total_size(), each * width);
        const Indices part = sampler.indices();
        ASSERT_EQ(part.size(), each);
        for (std::size_t i = 0; i < each; ++i) all[i * width + static_cast<std::size_t>(r)] = part[i];
      }
      for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i % n) << ranks << " ranks, " << n << " items";
    }
  }
}

// With drop_last nothing is repeated and less than one item a rank is left out.
TEST(Sampler, TheSamplerDropsWhatCannotBeSharedOut) {
  COVERS("A-20");
  EXPECT_EQ(of(10, {.num_replicas = 4, .rank = 1, .shuffle = false, .drop_last = true}), (Indices{1, 5}));
  EXPECT_EQ(of(12, {.num_replicas = 4, .rank = 3, .shuffle = false, .drop_last = true}), (Indices{3, 7, 11}));
  EXPECT_EQ(of(3, {.num_replicas = 4, .rank = 0, .shuffle = false, .drop_last = true}), Indices{});
}

// The order is a permutation that seed + epoch alone decide, whatever the ranks are and whoever else draws numbers.
TEST(Sampler, TheSamplerShufflesBySeedAndEpoch) {
  COVERS("A-21", "K-42");
  std::set<Indices> orders;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    DistributedSampler sampler(50, {.num_replicas = 1, .rank = 0, .seed = 3});
    sampler.set_epoch(epoch);
    const Indices order = sampler.indices();
    EXPECT_EQ(order, of(50, {.num_replicas = 1, .rank = 0, .seed = 3 + epoch}));
    Indices sorted = order;
    std::sort(sorted.begin(), sorted.end());
    Indices identity(50);
    std::iota(identity.begin(), identity.end(), std::size_t{0});
    EXPECT_EQ(sorted, identity);
    orders.insert(order);
    // The parts of three ranks are this order, strided.
    for (int r = 0; r < 3; ++r) {
      DistributedSampler third(50, {.num_replicas = 3, .rank = r, .seed = 3});
      third.set_epoch(epoch);
      const Indices part = third.indices();
      for (std::size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], order[(i * 3 + static_cast<std::size_t>(r)) % 50]);
    }
  }
  EXPECT_EQ(orders.size(), 20U);
}

// The order is the same on every platform: the generator is the standard's, the shuffle our own.
TEST(Sampler, TheSamplerDrawsTheSameOrderEverywhere) {
  COVERS("A-21");
  SamplerEngine engine(42);
  const Indices order = detail::permutation(8, engine);
  SamplerEngine oracle(42);
  Indices expected{0, 1, 2, 3, 4, 5, 6, 7};
  for (std::size_t left = 8; left > 1; --left) {
    // No number of the 64-bit generator falls into the rejected range of so small a bound here, so the upper half of the product is the index.
    __extension__ const auto product = static_cast<unsigned __int128>(oracle()) * left;
    std::swap(expected[left - 1], expected[static_cast<std::size_t>(product >> 64)]);
  }
  EXPECT_EQ(order, expected);
}

// The generator is the standard's, and stands where the standard takes one.
TEST(Sampler, ItsEngineIsTheStandardOne) {
  static_assert(std::uniform_random_bit_generator<SamplerEngine>);
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{5489}, std::uint64_t{1} << 63}) {
    SamplerEngine engine(seed);
    std::mt19937_64 oracle(seed);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(engine(), oracle()) << seed << " " << i;
  }
}

// A sampler may draw from another generator that is made from a seed; it gets one made from seed + epoch.
TEST(Sampler, TheSamplerDrawsFromAnotherEngine) {
  COVERS("A-26");
  struct Draws {
    std::size_t size() const { return 3; }
    Indices draw(std::mt19937& engine) const { return {engine(), engine(), engine()}; }
  };
  DistributedProxySampler sampler(Draws{}, {.num_replicas = 1, .rank = 0, .seed = 30});
  sampler.set_epoch(7);
  std::mt19937 oracle(37);
  Indices expected;
  for (int i = 0; i < 3; ++i) expected.push_back(oracle());
  EXPECT_EQ(sampler.indices(), expected);
}

// All 6 orders of 3 items come equally often: the shuffle prefers none.
TEST(Sampler, TheSamplerPrefersNoOrder) {
  std::map<Indices, int> count;
  SamplerEngine engine(7);
  for (int i = 0; i < 6000; ++i) ++count[detail::permutation(3, engine)];
  ASSERT_EQ(count.size(), 6U);
  for (const auto& [order, n] : count) EXPECT_NEAR(n, 1000, 150) << order[0] << order[1] << order[2];
}

// Forgetting set_epoch is said once; calling it, even with the same number, is enough.
TEST(Sampler, TheSamplerWarnsOfAForgottenEpoch) {
  COVERS("A-25", "Q-21");
  const auto said = [](auto&& body) {
    testing::internal::CaptureStderr();
    body();
    return testing::internal::GetCapturedStderr();
  };
  const auto iterate = [](DistributedSampler& sampler) { return std::accumulate(sampler.begin(), sampler.end(), std::size_t{0}); };
  DistributedSampler sampler(10, {.num_replicas = 2, .rank = 0});
  EXPECT_EQ(said([&] { iterate(sampler); }), "");
  EXPECT_NE(said([&] { iterate(sampler); }).find("set_epoch"), std::string::npos);
  EXPECT_EQ(said([&] { iterate(sampler); }), "");
  DistributedSampler careful(10, {.num_replicas = 2, .rank = 0});
  EXPECT_EQ(said([&] {
              for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
                careful.set_epoch(epoch);
                iterate(careful);
              }
            }),
            "");
  DistributedSampler plain(10, {.num_replicas = 2, .rank = 0, .shuffle = false});
  EXPECT_EQ(said([&] {
              iterate(plain);
              iterate(plain);
            }),
            "");
}

TEST(Sampler, TheSamplerRefusesImpossibleRanks) {
  COVERS("A-24");
  EXPECT_THROW(DistributedSampler(10, {.num_replicas = 4, .rank = 4}), InvalidArgument);
  EXPECT_THROW(DistributedSampler(10, {.num_replicas = 4, .rank = -1}), InvalidArgument);
  EXPECT_THROW(DistributedSampler(10, {.num_replicas = 0, .rank = 0}), InvalidArgument);
  EXPECT_THROW(DistributedSampler(10, {.num_replicas = 2, .rank = 0, .batch_sizes = {1}}), InvalidArgument);
  EXPECT_THROW(DistributedSampler(10, {.num_replicas = 2, .rank = 0, .batch_sizes = {0, 0}}), InvalidArgument);
  EXPECT_THROW(DistributedSampler(10, {.num_replicas = 2, .rank = 0, .batch_sizes = {SIZE_MAX, 2}}), InvalidArgument);
  EXPECT_THROW(DistributedProxySampler(WeightedSampler{3, 3}, {.num_replicas = 2, .rank = 2}), InvalidArgument);
}

// As an evaluation needs it: the samples of all ranks together are the data set, each once.
TEST(Sampler, TheSamplerGivesEachItemToOneRankWhereItIsExact) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{481}}) {
    for (const auto& batches : {std::vector<std::size_t>{}, std::vector<std::size_t>{4, 0, 3}}) {
      Indices all;
      for (int r = 0; r < 3; ++r) {
        const SamplerOptions options{.num_replicas = 3, .rank = r, .seed = 5, .exact = true, .batch_sizes = batches};
        const Indices part = of(n, options);
        EXPECT_EQ(DistributedSampler(n, options).size(), part.size());
        EXPECT_EQ(DistributedSampler(n, options).total_size(), n);
        all.insert(all.end(), part.begin(), part.end());
      }
      std::ranges::sort(all);
      Indices each(n);
      std::iota(each.begin(), each.end(), std::size_t{0});
      EXPECT_EQ(all, each) << n;
    }
  }
  EXPECT_EQ(of(7, {.num_replicas = 3, .rank = 1, .shuffle = false, .exact = true}), (Indices{1, 4}));
  EXPECT_THROW(DistributedSampler(10, {.num_replicas = 2, .rank = 0, .drop_last = true, .exact = true}), InvalidArgument);
  EXPECT_EQ(DistributedProxySampler(WeightedSampler{7, 7}, {.num_replicas = 3, .rank = 2, .exact = true}).indices().size(), 2U);
}

// A sampler that yields fewer samples than its length, or more, cannot be shared out exactly.
TEST(ProxySampler, TheProxyRefusesAnExactShareOfAnotherLength) {
  struct Wrong {
    std::size_t yielded;
    std::size_t size() const { return 4; }
    Indices draw(SamplerEngine&) const { return Indices(yielded, 1); }
  };
  for (const std::size_t yielded : {0U, 3U, 5U}) {
    DistributedProxySampler sampler(Wrong{yielded}, {.num_replicas = 2, .rank = 0, .exact = true});
    EXPECT_THROW(sampler.indices(), InvalidArgument) << yielded;
  }
  EXPECT_EQ(DistributedProxySampler(Wrong{4}, {.num_replicas = 2, .rank = 0, .exact = true}).indices(), (Indices{1, 1}));
}

// Without numbers, those of the context.
TEST(Sampler, TheSamplerTakesRankAndSizeFromTheWorld) {
  COVERS("A-24");
  const auto parts = run_threads(3, [] { return DistributedSampler(7, {.shuffle = false}).indices(); });
  EXPECT_EQ(parts, (std::vector<Indices>{{0, 3, 6}, {1, 4, 0}, {2, 5, 1}}));
}

// With batches of different sizes every rank still makes the same number of steps, and every item is taken.
TEST(Sampler, TheSamplerSharesOutBatchesOfDifferentSizes) {
  COVERS("C-19");
  const std::vector<std::size_t> batches{4, 3, 3};
  Indices all;
  for (int r = 0; r < 3; ++r) {
    const Indices part = of(25, {.num_replicas = 3, .rank = r, .shuffle = false, .batch_sizes = batches});
    EXPECT_EQ(part.size(), 3 * batches[static_cast<std::size_t>(r)]);
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  EXPECT_EQ(all.size(), 25U);
  EXPECT_EQ(of(25, {.num_replicas = 3, .rank = 1, .shuffle = false, .drop_last = true, .batch_sizes = batches}), (Indices{4, 5, 6, 14, 15, 16}));
}

// Over 100 seeds, what 8 replicas take together is what the wrapped sampler draws.
TEST(ProxySampler, TheProxyTakesTheSameSetAsTheWrappedSampler) {
  COVERS("A-26", "A-28", "A-29");
  const WeightedSampler weighted{100, 200};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SamplerEngine engine(seed);
    const Indices drawn = weighted.draw(engine);
    std::set<std::size_t> together;
    std::vector<Indices> parts;
    for (int r = 0; r < 8; ++r) {
      DistributedProxySampler sampler(weighted, {.num_replicas = 8, .rank = r});
      EXPECT_EQ(sampler.size(), 25U);
      sampler.set_epoch(seed);
      parts.emplace_back(sampler.begin(), sampler.end());
      together.insert(parts.back().begin(), parts.back().end());
    }
    EXPECT_EQ(together, std::set<std::size_t>(drawn.begin(), drawn.end())) << "seed " << seed;
    for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(parts[i % 8][i / 8], drawn[i]);
  }
}

// The adaptors together, for one rank and for several: what the ranks' loaders take of an epoch, whoever made the sampler, is all of it, in the order
// that one process would have, and every rank makes as many steps.
TEST(Adaptors, AdaptorsShareOutAnEpochAmongOneFourAndEight) {
  COVERS("W-12");
  constexpr std::size_t items = 96, batch = 24;
  const WeightedSampler weighted{items, items};
  for (const int ranks : {1, 4, 8}) {
    const auto width = static_cast<std::size_t>(ranks);
    const LoaderPlan plan = plan_loader({.batch_size = batch, .num_workers = 2, .shuffle = true, .dataset_size = items},
                                        {.rank = ranks - 1, .world_size = ranks, .nproc_per_node = ranks});
    EXPECT_EQ(plan.batch_size, batch / width);
    EXPECT_EQ(plan.total_batch_size, batch);
    EXPECT_EQ(plan.sampler, ranks == 1 ? LoaderPlan::Sampler::none : LoaderPlan::Sampler::distributed);
    EXPECT_EQ(plan_loader({.dataset_size = items, .sampling = LoaderRequest::Sampling::other}, {.world_size = ranks}).sampler,
              ranks == 1 ? LoaderPlan::Sampler::given : LoaderPlan::Sampler::proxy);
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      SamplerEngine engine(seed);
      const Indices drawn = weighted.draw(engine);
      const Indices order = of(items, {.num_replicas = 1, .rank = 0, .seed = seed});
      Indices read(items), proxied(items);
      for (std::size_t r = 0; r < width; ++r) {
        DistributedProxySampler proxy(weighted, {.num_replicas = ranks, .rank = static_cast<int>(r)});
        proxy.set_epoch(seed);
        const Indices part = proxy.indices(), own = of(items, {.num_replicas = ranks, .rank = static_cast<int>(r), .seed = seed});
        ASSERT_EQ(part.size(), items / width);
        ASSERT_EQ(own.size(), items / width);
        for (std::size_t k = 0; k < items / width; ++k) {
          proxied[k * width + r] = part[k];
          read[k * width + r] = own[k];
        }
      }
      ASSERT_EQ(read, order) << ranks << " ranks, seed " << seed;
      ASSERT_EQ(proxied, drawn) << ranks << " ranks, seed " << seed;
    }
  }
}

// Asked again until every rank has equally many, each time going on with the same generator.
TEST(ProxySampler, TheProxyAsksAgainForThePadding) {
  COVERS("A-28");
  const Indices order{5, 6, 7};
  DistributedProxySampler second(order, {.num_replicas = 2, .rank = 1});
  EXPECT_EQ(second.size(), 2U);
  EXPECT_EQ(second.total_size(), 4U);
  EXPECT_EQ(second.indices(), (Indices{6, 5}));
  SamplerEngine engine(9);
  const WeightedSampler weighted{10, 3};
  const Indices once = weighted.draw(engine), again = weighted.draw(engine);
  DistributedProxySampler last(weighted, {.num_replicas = 4, .rank = 3, .seed = 9});
  EXPECT_EQ(last.indices(), Indices{again[0]});
}

// A sampler that promises items and has none is an error, no endless loop. Its order changes with set_epoch.
TEST(ProxySampler, TheProxyRefusesASamplerThatYieldsNothing) {
  COVERS("K-42", "Q-21");
  struct Empty {
    std::size_t size() const { return 3; }
    Indices draw(SamplerEngine&) const { return {}; }
  };
  DistributedProxySampler sampler(Empty{}, {.num_replicas = 2, .rank = 0});
  EXPECT_THROW(static_cast<void>(sampler.indices()), InvalidArgument);
  DistributedProxySampler weighted(WeightedSampler{100, 50}, {.num_replicas = 2, .rank = 0});
  const Indices first = weighted.indices();
  weighted.set_epoch(1);
  EXPECT_NE(weighted.indices(), first);
}
