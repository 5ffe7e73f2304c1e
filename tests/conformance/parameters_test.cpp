#include "unisono/parameters.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <random>
#include <ranges>
#include <unordered_map>

#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

template <class T>
std::vector<T> averages(std::size_t count, int n) {
  std::vector<T> x = sums<T>(count, n);
  for (T& element : x) element = static_cast<T>(element / static_cast<T>(n));
  return x;
}

// In place, also of integers, which are truncated; every length.
WORLD_TEST(Average, BuffersAreAveraged) {
  COVERS("V-09", "K-54", "C-05", "K-59");
  const int n = world_size();
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(n) + 1, std::size_t{10007}}) {
    auto doubles = values<double>(count, rank());
    average_across_processes(doubles);
    const auto sum = sums<double>(count, n);
    for (std::size_t i = 0; i < count; ++i) ASSERT_DOUBLE_EQ(doubles[i], sum[i] / n) << i;
    auto integers = values<std::int64_t>(count, rank());
    average_across_processes(integers);
    EXPECT_EQ(difference(integers, averages<std::int64_t>(count, n)), "");
    for (auto& x : integers) x = -x - rank();
    const auto own = integers;
    average_across_processes(integers);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(integers[i], (n * own[i] + n * rank() - n * (n - 1) / 2) / n) << i;
  }
  std::array<float, 2> pair{static_cast<float>(rank()), 1.0F};
  average_across_processes(std::span(pair).first(1));
  EXPECT_EQ(pair, (std::array<float, 2>{static_cast<float>(n - 1) / 2, 1.0F}));
  std::vector<unsigned char> truth(3);
  EXPECT_THROW(average_across_processes(TensorView(truth.data(), DType::boolean, 3)), InvalidArgument);
  expect_usable();
}

WORLD_TEST(Average, ValuesAreAveraged) {
  const int n = world_size();
  static_assert(std::same_as<decltype(average_across_processes(1)), int>);
  EXPECT_EQ(average_across_processes(2.0 * rank() + 1), static_cast<double>(n));
  EXPECT_EQ(average_across_processes(rank()), (n - 1) / 2);
}

// Paired by key, whatever the order in which a rank has them; numbers and buffers of several dtypes.
WORLD_TEST(Average, DictionariesAreAveraged) {
  COVERS("V-10", "K-53");
  const int n = world_size();
  std::unordered_map<std::string, std::vector<double>> weights;
  std::vector<std::string> names{"encoder", "decoder", "head", "a", "b", "c"};
  if (rank() % 2 == 1) std::reverse(names.begin(), names.end());
  for (const auto& name : names) {
    weights[name] = values<double>(name.size(), rank());
    for (double& x : weights[name]) x += static_cast<double>(name.front());
  }
  average_across_processes(weights);
  ASSERT_EQ(weights.size(), names.size());
  for (const auto& [name, x] : weights) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_DOUBLE_EQ(x[i], sums<double>(x.size(), n)[i] / n + static_cast<double>(name.front())) << name;
    }
  }
  std::map<std::string, double> metrics{{"accuracy", 0.5 * rank()}, {"loss", 2.0 - rank()}};
  average_across_processes(metrics);
  EXPECT_DOUBLE_EQ(metrics["accuracy"], 0.25 * (n - 1));
  EXPECT_DOUBLE_EQ(metrics["loss"], 2.0 - 0.5 * (n - 1));
}

// Every dtype for itself, nothing promoted, in place: whoever has an address of an entry sees the result.
WORLD_TEST(AllReduceDict, MixedDtypesAreReducedInPlace) {
  COVERS("M-07", "K-62");
  const int n = world_size();
  std::vector<float> a = values<float>(7, rank());
  std::vector<std::int64_t> b = values<std::int64_t>(5, rank());
  std::vector<double> c = values<double>(1001, rank());
  std::vector<float> d = values<float>(3, rank()), empty;
  std::vector<std::int64_t> transposed(6);
  for (std::size_t i = 0; i < 6; ++i) transposed[i] = value<std::int64_t>(rank(), i);
  const std::array<std::int64_t, 2> shape{2, 3}, strides{1, 2};
  std::map<std::string, TensorView> dictionary{{"a", detail::view_of(a)},     {"b", detail::view_of(b)},
                                               {"c", detail::view_of(c)},     {"d", detail::view_of(d)},
                                               {"e", detail::view_of(empty)}, {"t", TensorView(transposed.data(), DType::int64, shape, strides)}};
  all_reduce_dict(dictionary);
  EXPECT_EQ(difference(a, sums<float>(7, n)), "");
  EXPECT_EQ(difference(b, sums<std::int64_t>(5, n)), "");
  EXPECT_EQ(difference(c, sums<double>(1001, n)), "");
  EXPECT_EQ(difference(d, sums<float>(3, n)), "");
  EXPECT_EQ(difference(transposed, sums<std::int64_t>(6, n)), "");
  std::map<std::string, int> counts{{"hits", rank() + 1}, {"misses", 10 * rank()}};
  all_reduce_dict(counts, ReduceOp::max);
  EXPECT_EQ(counts, (std::map<std::string, int>{{"hits", n}, {"misses", 10 * (n - 1)}}));
  std::map<std::string, std::vector<float>> mean{{"x", {static_cast<float>(rank()), 3.0F}}};
  all_reduce_dict(mean, parse_reduce_op("mean"));
  EXPECT_EQ(mean["x"], (std::vector<float>{static_cast<float>(n - 1) / 2, 3.0F}));
}

// An empty one is fine.
WORLD_TEST(AllReduceDict, EmptyDictionariesAreReduced) {
  COVERS("K-62");
  std::map<std::string, std::vector<float>> nothing;
  all_reduce_dict(nothing);
  average_across_processes(nothing);
  EXPECT_TRUE(nothing.empty());
  expect_usable();
}

// Another key, dtype or shape on one rank is seen by all, which name it; nothing is moved.
MANY_TEST(AllReduceDict, TheFirstDifferenceOfDictionariesIsNamed) {
  COVERS("K-53", "K-62");
  struct Case {
    const char* name;
    void (*change)(std::map<std::string, std::vector<float>>&);
    const char* says;
  };
  const Case cases[] = {
      {"one more", [](auto& d) { d["bias"] = {1}; }, "\"bias\""},
      {"one more at the end", [](auto& d) { d["zeta"] = {1}; }, "\"zeta\""},
      {"one less", [](auto& d) { d.erase("head"); }, "\"head\""},
      {"none", [](auto& d) { d.clear(); }, "\"body\""},
      {"another name", [](auto& d) { d.insert(std::pair("tail", d.extract("head").mapped())); }, "\"head\""},
      {"another length", [](auto& d) { d["head"].push_back(1); }, "\"head\" is float32"},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    for (int odd = 0; odd < world_size(); ++odd) {
      std::map<std::string, std::vector<float>> dictionary{{"body", values<float>(3, rank())}, {"head", values<float>(2, rank())}};
      if (rank() == odd) test.change(dictionary);
      const auto before = dictionary;
      const auto error = thrown_by<Mismatch>([&] { all_reduce_dict(dictionary); });
      EXPECT_NE(std::string(error.what()).find(test.says), std::string::npos) << error.what();
      EXPECT_EQ(error.operation(), "all_reduce_dict");
      expect_culprit(error, odd);
      EXPECT_EQ(dictionary, before);
      expect_usable();
    }
  }
  const bool odd = rank() == world_size() - 1;
  std::vector<float> floats(2);
  std::vector<double> doubles(2);
  std::map<std::string, TensorView> dictionary{{"x", odd ? detail::view_of(doubles) : detail::view_of(floats)}};
  const auto error = thrown_by<Mismatch>([&] { all_reduce_dict(dictionary); });
  EXPECT_NE(std::string(error.what()).find("float64 [2]"), std::string::npos) << error.what();
  std::map<std::string, int> numbers{{"x", 1}};
  EXPECT_THROW(all_reduce_dict(numbers, odd ? ReduceOp::max : ReduceOp::sum), Mismatch);
  EXPECT_THROW(odd ? static_cast<void>(average_across_processes(numbers)) : all_reduce_dict(numbers, ReduceOp::avg), Mismatch);
  EXPECT_EQ(numbers["x"], 1);
  expect_usable();
}

// An operation without a meaning is refused in every world, also alone.
WORLD_TEST(AllReduceDict, DictionariesRefuseWhatHasNoMeaning) {
  COVERS("R-11", "R-12");
  std::map<std::string, std::vector<float>> dictionary{{"x", {1.5F}}};
  const auto error = thrown_by<InvalidArgument>([&] { all_reduce_dict(dictionary, ReduceOp::band); });
  EXPECT_NE(std::string(error.what()).find("\"x\""), std::string::npos) << error.what();
  EXPECT_THROW(static_cast<void>(parse_reduce_op("produce")), InvalidArgument);
  std::vector<float> three(3);
  const std::array<std::int64_t, 1> shape{3}, strides{0};
  std::map<std::string, TensorView> repeated{{"x", rank() == 0 ? TensorView(three.data(), DType::float32, shape, strides) : detail::view_of(three)}};
  EXPECT_THROW(all_reduce_dict(repeated), InvalidArgument) << "what is wrong on one rank is told to all";
  EXPECT_THROW(all_reduce_dict(dictionary, ReduceOp::sum, world(), {.timeout = std::chrono::milliseconds(-1)}), InvalidArgument);
  EXPECT_EQ(dictionary["x"].front(), 1.5F);
  expect_usable();
}

// A hundred tensors, in one bucket, in many, and each alone: the same bits.
WORLD_TEST(AllReduceParams, BucketsMakeNoDifference) {
  COVERS("M-14", "M-15", "TS-29");
  const int n = world_size();
  const ParamsOptions ways[] = {{}, {.bucket_size_mb = 1}, {.coalesce = false}, {.coalesce = true, .bucket_size_mb = 2, .op = ReduceOp::sum}};
  for (const ParamsOptions& way : ways) {
    std::vector<std::vector<std::int64_t>> integers;
    std::list<std::vector<float>> floats;
    for (std::size_t i = 0; i < 100; ++i) {
      integers.push_back(values<std::int64_t>(i % 7, rank()));
      floats.push_back(values<float>(i % 10 == 3 ? 60000 : i, rank()));
    }
    all_reduce_params(integers, way);
    all_reduce_params(floats, way);
    for (const auto& x : integers) EXPECT_EQ(difference(x, sums<std::int64_t>(x.size(), n)), "");
    for (const auto& x : floats) EXPECT_EQ(difference(x, sums<float>(x.size(), n)), "");
  }
  std::vector<std::vector<float>> means{{static_cast<float>(rank())}, {3.0F * static_cast<float>(rank())}};
  all_reduce_params(means, {.coalesce = false, .op = ReduceOp::avg});
  EXPECT_EQ(means, (std::vector<std::vector<float>>{{static_cast<float>(n - 1) / 2}, {1.5F * static_cast<float>(n - 1)}}));
}

// A range that can be gone through once; mixed dtypes, strided tensors, none at all.
WORLD_TEST(AllReduceParams, AnyRangeHoldsParameters) {
  COVERS("M-14");
  const int n = world_size();
  std::vector<float> a = values<float>(6, rank());
  std::vector<double> b = values<double>(5, rank());
  const std::array<std::int64_t, 2> shape{3, 2}, strides{1, 3};
  const std::array<TensorView, 3> tensors{TensorView(a.data(), DType::float32, shape, strides), detail::view_of(b),
                                          TensorView(nullptr, DType::float32, 0)};
  all_reduce_params(tensors);
  EXPECT_EQ(difference(a, sums<float>(6, n)), "");
  EXPECT_EQ(difference(b, sums<double>(5, n)), "");

  struct Once {
    struct iterator {
      using difference_type = std::ptrdiff_t;
      using value_type = std::span<int>;
      std::vector<std::vector<int>>* params;
      std::size_t i = 0;
      std::span<int> operator*() const { return (*params)[i]; }
      iterator& operator++() {
        ++i;
        return *this;
      }
      void operator++(int) { ++i; }
      bool operator==(std::default_sentinel_t) const { return i == params->size(); }
    };
    std::vector<std::vector<int>>* params;
    iterator begin() { return {params}; }
    std::default_sentinel_t end() { return {}; }
  };
  static_assert(std::ranges::input_range<Once> && !std::ranges::forward_range<Once>);
  std::vector<std::vector<int>> params{values<int>(3, rank()), values<int>(0, rank()), values<int>(11, rank())};
  all_reduce_params(Once{&params});
  for (const auto& x : params) EXPECT_EQ(difference(x, sums<int>(x.size(), n)), "");
  all_reduce_params(params | std::views::transform([](auto& x) { return std::span(x).first(std::min<std::size_t>(x.size(), 2)); }));
  EXPECT_EQ(params[2][1], n * sums<int>(11, n)[1]);
  EXPECT_EQ(params[2][2], sums<int>(11, n)[2]);

  std::vector<std::vector<float>> nothing;
  all_reduce_params(nothing);
  expect_usable();
}

MANY_TEST(AllReduceParams, ParametersOfRanksAreCompared) {
  COVERS("TS-29");
  const bool odd = rank() == 1;
  std::vector<std::vector<float>> params{values<float>(3, rank()), values<float>(odd ? 5 : 4, rank())};
  const auto before = params;
  const auto error = thrown_by<Mismatch>([&] { all_reduce_params(params); });
  EXPECT_NE(std::string(error.what()).find("\"parameter 1\" is float32"), std::string::npos) << error.what();
  EXPECT_EQ(params, before);
  params.resize(odd ? 1 : 2, std::vector<float>(5));
  EXPECT_THROW(all_reduce_params(params), Mismatch);
  params.resize(1);
  EXPECT_THROW(all_reduce_params(params, {.coalesce = odd}), Mismatch);
  EXPECT_THROW(all_reduce_params(params, {.bucket_size_mb = odd ? 1 : 2}), Mismatch);
  EXPECT_EQ(params[0], before[0]);
  // The number of elements agrees, the shape does not.
  std::vector<float> x(6);
  const std::array<std::int64_t, 2> shape{2, 3}, other{3, 2};
  EXPECT_THROW(all_reduce_params(std::array{TensorView(x.data(), DType::float32, odd ? other : shape)}), Mismatch);
  expect_usable();
}

WORLD_TEST(AllReduceParams, BucketsOfNoSizeAreRefused) {
  std::vector<std::vector<float>> params{{1.0F}};
  for (const int size : {0, -2}) EXPECT_THROW(all_reduce_params(params, {.bucket_size_mb = size}), InvalidArgument);
  EXPECT_EQ(params[0][0], 1.0F);
  expect_usable();
}

// Everything in a group of another order.
WORLD_TEST(Parameters, ParametersAreReducedInGroups) {
  const auto group = split_group(world(), rank() % 2, -rank());
  ASSERT_TRUE(group);
  double sum = 0;
  for (int r = rank() % 2; r < world_size(); r += 2) sum += r;
  std::vector<std::vector<double>> params{{static_cast<double>(rank())}};
  all_reduce_params(params, {}, *group);
  EXPECT_EQ(params[0][0], sum);
  std::map<std::string, double> dictionary{{"x", rank()}};
  average_across_processes(dictionary, *group);
  EXPECT_DOUBLE_EQ(dictionary["x"], sum / group->size());
}

// All ranks of a group get one seed; nobody's generator moves.
WORLD_TEST(SyncRandomSeed, TheRandomSeedIsOneForAll) {
  COVERS("M-05");
  std::mt19937 generator(5), untouched(5);
  const auto seed = sync_random_seed();
  EXPECT_LT(seed, 1U << 31);
  EXPECT_EQ(all_gather(seed), std::vector<std::uint32_t>(static_cast<std::size_t>(world_size()), seed));
  EXPECT_EQ(generator(), untouched());
  bool differs = false;
  for (int i = 0; i < 8; ++i) differs = differs || sync_random_seed() != seed;
  EXPECT_TRUE(differs);
  // Also of a group without global rank 0.
  const auto group = split_group(world(), rank() == 0 ? -1 : 0);
  if (group) {
    const auto theirs = sync_random_seed(*group);
    EXPECT_EQ(all_gather(theirs, *group), std::vector<std::uint32_t>(static_cast<std::size_t>(group->size()), theirs));
  }
}

// A call that draws nothing from the C library's generator leaves its sequence as it was. (Ranks that are threads share it.)
TEST(SyncRandomSeed, SyncRandomSeedLeavesTheGeneratorOfTheLibraryAlone) {
  COVERS("K-68", "C-29");
  if (launched()) GTEST_SKIP() << "alone only";
  std::srand(7);
  const int first = std::rand(), second = std::rand();
  std::srand(7);
  EXPECT_EQ(std::rand(), first);
  static_cast<void>(sync_random_seed());
  EXPECT_EQ(std::rand(), second);
}

}  // namespace
