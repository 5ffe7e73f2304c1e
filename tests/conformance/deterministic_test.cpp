// CallOptions::deterministic: the bits of a combination from rank 0 to the last, on every backend, on one host and on several, whatever the length.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "unisono/unisono.h"
#include "world.h"

namespace conformance {
namespace {

using namespace unisono;

/// Numbers whose sum depends on the order of the additions.
float element(int rank, std::size_t i) {
  return 1.0F / static_cast<float>(3 + rank * 7 + static_cast<int>(i % 1013)) * static_cast<float>(rank % 2 == 0 ? 1 : 1000);
}

std::vector<float> elements(int rank, std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = element(rank, i);
  return x;
}

/// The sum of the first ranks, one after the other.
float sum(std::size_t i, int ranks) {
  float all = element(0, i);
  for (int r = 1; r < ranks; ++r) all += element(r, i);
  return all;
}

std::vector<float> sums(std::size_t first, std::size_t count, int ranks) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = sum(first + i, ranks);
  return all;
}

const CallOptions deterministic{.deterministic = true};

WORLD_TEST(Deterministic, SumsHaveTheBitsOfTheOrderOfTheRanks) {
  for (const std::size_t count : {1U, 4096U, 20011U}) {
    std::vector<float> x = elements(rank(), count);
    all_reduce(x, ReduceOp::sum, current_world(), deterministic);
    EXPECT_EQ(x, sums(0, count, world_size())) << count;
    x = elements(rank(), count);
    reduce(x, Rank{world_size() - 1}, ReduceOp::sum, current_world(), deterministic);
    const bool is_root = rank() == world_size() - 1;
    EXPECT_EQ(x, is_root ? sums(0, count, world_size()) : elements(rank(), count)) << count;
    x = elements(rank(), count);
    scan(x, ReduceOp::sum, current_world(), deterministic);
    EXPECT_EQ(x, sums(0, count, rank() + 1)) << count;
    const std::vector<float> all = elements(rank(), count * static_cast<std::size_t>(world_size()));
    std::vector<float> own(count);
    reduce_scatter(all, own, ReduceOp::sum, current_world(), deterministic);
    EXPECT_EQ(own, sums(count * static_cast<std::size_t>(rank()), count, world_size())) << count;
  }
}

WORLD_TEST(Deterministic, AveragesAreDividedOnce) {
  std::vector<float> x = elements(rank(), 5003);
  all_reduce(x, ReduceOp::avg, current_world(), deterministic);
  std::vector<float> expected = sums(0, x.size(), world_size());
  for (float& each : expected) each /= static_cast<float>(world_size());
  EXPECT_EQ(x, expected);
}

WORLD_TEST(Deterministic, CallablesAreCalledInTheOrderOfTheRanks) {
  std::vector<double> x(3001, 1.0 / (2 + rank()));
  double expected = 1.0 / 2;
  for (int r = 1; r < world_size(); ++r) expected = expected - 1.0 / (2 + r);  // which does not commute
  all_reduce(
      x, [](double a, double b) { return a - b; }, current_world(), deterministic);
  EXPECT_EQ(x, std::vector<double>(x.size(), expected));
}

WORLD_TEST_IN((Worlds{.at_least = 2}), Deterministic, RanksAgreeOnDeterministicCalls) {
  std::vector<float> x = elements(rank(), 100);
  const CallOptions options{.deterministic = rank() == 0};
  try {
    all_reduce(x, ReduceOp::sum, current_world(), options);
    ADD_FAILURE() << "the ranks differ";
  } catch (const Mismatch& error) {
    EXPECT_NE(std::string(error.what()).find("all_reduce(float32 × 100, sum, deterministic)"), std::string::npos) << error.what();
  }
  EXPECT_EQ(x, elements(rank(), 100));
}

}  // namespace
}  // namespace conformance
