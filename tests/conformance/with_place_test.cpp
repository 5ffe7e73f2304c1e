// The smallest and the largest value, and where it is.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

WORLD_TEST(WithPlaces, OneValueHasAPlace) {
  const int n = world_size();
  // Largest in the middle, smallest at the end.
  const double x = rank() == n / 2 ? 100.5 : -rank();
  const auto [largest, where] = all_reduce(WithPlace{x, rank()}, ReduceOp::max);
  EXPECT_EQ(largest, 100.5);
  EXPECT_EQ(where, n / 2);
  EXPECT_EQ(all_reduce(WithPlace{-rank(), 10 * rank()}, ReduceOp::min), (WithPlace<int>{1 - n, 10 * (n - 1)}));
  const auto at_last = reduce(WithPlace{static_cast<std::uint8_t>(200 - rank()), rank()}, n - 1, ReduceOp::min);
  EXPECT_EQ(at_last, rank() == n - 1 ? std::optional(WithPlace<std::uint8_t>{static_cast<std::uint8_t>(201 - n), n - 1}) : std::nullopt);
  EXPECT_EQ(scan(WithPlace{rank() % 2, rank()}, ReduceOp::max), (WithPlace<int>{std::min(rank(), 1), std::min(rank(), 1)}));
}

// The lowest place counts among equal values, on whichever rank it is.
WORLD_TEST(WithPlaces, TheLowestPlaceWinsATie) {
  const int n = world_size();
  EXPECT_EQ(all_reduce(WithPlace{7.0F, n - rank()}, ReduceOp::max).place, 1);
  EXPECT_EQ(all_reduce(WithPlace{7.0F, n - rank()}, ReduceOp::min).place, 1);
  EXPECT_EQ(all_reduce(WithPlace{true, rank()}, ReduceOp::max).place, 0);
}

// As min and max of the values alone: a NaN wins, and of several the one with the lowest place; -0 is less than +0.
WORLD_TEST(WithPlaces, NanAndSignedZeroHaveTheirOrder) {
  const int n = world_size();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    const auto found = all_reduce(WithPlace{rank() == 0 ? 1.0F : nan, 5 * rank()}, op);
    EXPECT_EQ(std::isnan(found.value), n > 1);
    EXPECT_EQ(found.place, n > 1 ? 5 : 0);
  }
  const auto zero = all_reduce(WithPlace{rank() == n - 1 ? -0.0 : 0.0, rank()}, ReduceOp::min);
  EXPECT_TRUE(std::signbit(zero.value));
  EXPECT_EQ(zero.place, n - 1);
  EXPECT_EQ(all_reduce(WithPlace{bfloat16(rank() == n - 1 ? 2.0F : 1.0F), rank()}, ReduceOp::max).place, n - 1);
}

// Element by element, of lengths around everything that an algorithm may stumble over, with the same bits on all ranks.
WORLD_TEST(WithPlaces, ElementsOfRangesHavePlaces) {
  const auto n = static_cast<std::size_t>(world_size());
  const auto element = [n](std::size_t r, std::size_t i) {
    return WithPlace<double>{static_cast<double>((i * 7 + r * 13) % 5), static_cast<std::int64_t>(i * n + r)};
  };
  for (const std::size_t count : interesting_counts(16)) {
    std::vector<WithPlace<double>> x, expected, of_dst;
    for (std::size_t i = 0; i < count; ++i) {
      x.push_back(element(static_cast<std::size_t>(rank()), i));
      WithPlace<double> best = element(0, i);
      for (std::size_t r = 1; r < n; ++r) {
        if (element(r, i).value > best.value) best = element(r, i);
      }
      expected.push_back(best);
    }
    auto y = x, z = x;
    all_reduce(y, ReduceOp::max);
    ASSERT_EQ(difference(y, expected), "") << count;
    reduce(z, 0, ReduceOp::max);
    ASSERT_EQ(difference(z, rank() == 0 ? expected : x), "") << count;
    z = x;
    all_reduce_async(z, ReduceOp::max).wait();
    ASSERT_EQ(difference(z, expected), "") << count;
  }
  std::array<WithPlace<int>, 3> few{{{rank(), rank()}, {-rank(), rank()}, {3, rank()}}};
  scan(few, ReduceOp::min);
  EXPECT_EQ(few, (std::array<WithPlace<int>, 3>{{{0, 0}, {-rank(), rank()}, {3, 0}}}));
}

WORLD_TEST(WithPlaces, PlacesAreForMinAndMaxOnly) {
  const auto error = thrown_by<InvalidArgument>([] { static_cast<void>(all_reduce(WithPlace{1.0, 0}, ReduceOp::sum)); });
  EXPECT_EQ(error.operation(), "all_reduce");
  expect_usable();
}

MANY_TEST(WithPlaces, MinIsNotMax) {
  const ReduceOp op = rank() == world_size() - 1 ? ReduceOp::max : ReduceOp::min;
  const auto error = thrown_by<Mismatch>([&] { static_cast<void>(all_reduce(WithPlace{1.0, rank()}, op)); });
  expect_culprit(error, world_size() - 1);
  // Pairs of another type are as large.
  EXPECT_THROW(
      {
        if (rank() == 0) static_cast<void>(all_reduce(WithPlace{1.0, rank()}, ReduceOp::max));
        else static_cast<void>(all_reduce(WithPlace{1.0F, rank()}, ReduceOp::max));
      },
      Mismatch);
  expect_usable();
}

// The bits of the numbers 1 and 1.0 are in the same order, so that what the operations do would not tell them apart.
MANY_TEST(WithPlaces, PlacesOfDifferentTypesAreAMismatch) {
  const auto error = thrown_by<Mismatch>([&] {
    if (rank() == 0) static_cast<void>(all_reduce(WithPlace{1.0, rank()}, ReduceOp::min));
    else static_cast<void>(all_reduce(WithPlace{std::int64_t{1}, rank()}, ReduceOp::min));
  });
  const std::string text = error.what();
  EXPECT_NE(text.find("the smallest with its place, float64"), std::string::npos) << text;
  EXPECT_NE(text.find("the smallest with its place, int64"), std::string::npos) << text;
  expect_usable();
}

}  // namespace
