#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>

#include "covers.h"
#include "inputs.h"
#include "kernels/reduce.h"
#include "world.h"

using namespace unisono;
using namespace conformance;
using oracle::Bytes;

namespace {

std::vector<Bytes> everybodys(DType dtype, ReduceOp op, std::size_t count, std::uint64_t salt) {
  std::vector<Bytes> inputs;
  for (int r = 0; r < world_size(); ++r) inputs.push_back(conformance::inputs(dtype, op, count, 1000 * salt + static_cast<std::uint64_t>(r)));
  return inputs;
}

std::string named(DType dtype, ReduceOp op, std::size_t count) {
  return std::string(to_string(dtype)) + " " + std::string(to_string(op)) + " of " + std::to_string(count);
}

// The oracle's values hold NaN, infinities, extremes and -0.
WORLD_TEST(AllReduce, EveryDtypeAndOperationIsReduced) {
  COVERS("R-01", "R-02", "R-03", "R-04", "R-05", "R-06", "R-07", "R-08", "R-12", "R-13", "W-03", "W-04", "T-28", "Q-17", "K-27");
  if (on_an_engine()) COVERS("B-13", "B-21");
  if (world().backend() == "gloo") COVERS("K-19");
  const auto me = static_cast<std::size_t>(rank());
  for (const DType dtype : oracle::every_dtype) {
    for (const ReduceOp op : oracle::every_op) {
      for (const std::size_t count : {std::size_t{2}, std::size_t{331}, std::size_t{2500}}) {
        if (count > 2000 && (sanitized || dtype == DType::boolean)) continue;
        const auto inputs = everybodys(dtype, op, count, count + static_cast<std::size_t>(op));
        Bytes x = inputs[me];
        TensorView view(x.data(), dtype, count);
        if (!kernels::supports(dtype, op)) {
          EXPECT_THROW(all_reduce(view, op), InvalidArgument) << named(dtype, op, count);
          EXPECT_EQ(x, inputs[me]);
          continue;
        }
        all_reduce(view, op);
        ASSERT_TRUE(x == oracle::reduce(inputs, count, dtype, op, inputs.size())) << named(dtype, op, count);
        Bytes out(x.size());
        Bytes in = inputs[me];
        all_reduce(TensorView(in.data(), dtype, count), TensorView(out.data(), dtype, count), op);
        ASSERT_TRUE(out == x) << named(dtype, op, count) << " out of place";
        ASSERT_TRUE(in == inputs[me]) << "the input was written to";
      }
    }
  }
}

WORLD_TEST(AllReduce, ResultsAreRightAtEveryLength) {
  COVERS("W-02");
  for (const std::size_t count : interesting_counts(sizeof(float))) {
    auto x = values<float>(count, rank());
    all_reduce(x);
    ASSERT_EQ(difference(x, sums<float>(count, world_size())), "") << count;
    const auto in = values<float>(count, rank());
    std::vector<float> out(count, -1.0F);
    all_reduce(in, out);
    ASSERT_EQ(difference(out, x), "") << count << " out of place";
  }
  for (const std::size_t count : interesting_counts(sizeof(std::complex<double>))) {
    if (count > 20000) continue;
    auto x = values<std::complex<double>>(count, rank());
    all_reduce(x);
    ASSERT_EQ(difference(x, sums<std::complex<double>>(count, world_size())), "") << count;
  }
  for (const std::size_t count : {slot_bytes - 1, slot_bytes, slot_bytes + 1, 2 * slot_bytes + 65}) {
    std::vector<std::uint8_t> x(count);
    for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<std::uint8_t>(i * 11 + static_cast<std::size_t>(rank()) * 3);
    all_reduce(x, ReduceOp::bxor);
    std::vector<std::uint8_t> expected(count);
    for (int r = 0; r < world_size(); ++r) {
      for (std::size_t i = 0; i < count; ++i) expected[i] ^= static_cast<std::uint8_t>(i * 11 + static_cast<std::size_t>(r) * 3);
    }
    ASSERT_EQ(difference(x, expected), "") << count;
  }
}

// Bitwise identical on all ranks, and the same whether in place or not, whatever the numbers.
WORLD_TEST(AllReduce, AllReduceGivesTheSameBitsEverywhere) {
  COVERS("T-28");
  for (const std::size_t count : {1UL, 3UL, 8UL, 9UL, 1000UL, 2049UL, 33000UL, 100003UL}) {
    if (sanitized && count > 40000) continue;
    std::mt19937_64 random(static_cast<std::uint64_t>(rank()) * 7919 + count);
    std::normal_distribution<double> normal(0.0, 1e3);
    const auto check = [&]<class T>(T, auto op) {
      std::vector<T> x(count);
      for (auto& v : x) v = static_cast<T>(static_cast<float>(normal(random)));
      std::vector<T> out(count);
      all_reduce(x, out, op);
      all_reduce(x, op);
      std::vector<T> first = x;
      broadcast(first);
      ASSERT_EQ(std::memcmp(first.data(), x.data(), count * sizeof(T)), 0) << count << " " << to_string(dtype_of<T>::value);
      ASSERT_EQ(std::memcmp(out.data(), x.data(), count * sizeof(T)), 0) << count << " " << to_string(dtype_of<T>::value);
    };
    check(float{}, ReduceOp::sum);
    check(double{}, ReduceOp::avg);
    check(float16{}, ReduceOp::sum);
    check(bfloat16{}, ReduceOp::avg);
    check(float{}, ReduceOp::product);
  }
}

// Rule 8: one rounding at the end, not one a rank.
WORLD_TEST(AllReduce, HalvesAccumulateInFloat) {
  const int n = world_size();
  for (const std::size_t count : {1UL, 100UL, 20000UL}) {
    std::vector<bfloat16> b(count, bfloat16(rank() == 0 ? 256.0F : 1.0F));  // 257 is not a bfloat16
    std::vector<float16> h(count, float16(rank() == 0 ? 2048.0F : 1.0F));   // 2049 is not a float16
    all_reduce(b);
    all_reduce(h);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(b[i].bits, bfloat16(256.0F + static_cast<float>(n - 1)).bits);
      ASSERT_EQ(h[i].bits, float16(2048.0F + static_cast<float>(n - 1)).bits);
    }
  }
}

WORLD_TEST(AllReduce, ValuesAtTheEdgesAreReducedExactly) {
  COVERS("W-03");
  const int n = world_size();
  constexpr float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x{rank() == 0 ? inf : -inf, rank() == n - 1 ? nan : 1.0F, rank() == 0 ? -0.0F : 0.0F, std::numeric_limits<float>::max()};
  auto sum = x;
  all_reduce(sum);
  if (n > 1) {
    EXPECT_TRUE(std::isnan(sum[0]) && std::isinf(sum[3]));
  }
  EXPECT_TRUE(std::isnan(sum[1]));
  auto least = x;
  all_reduce(least, ReduceOp::min);
  EXPECT_EQ(least[0], n > 1 ? -inf : inf);
  EXPECT_TRUE(std::isnan(least[1]));
  EXPECT_TRUE(least[2] == 0.0F && std::signbit(least[2]));
  auto greatest = x;
  all_reduce(greatest, ReduceOp::max);
  EXPECT_EQ(greatest[0], inf);
  EXPECT_TRUE(std::isnan(greatest[1]));
  EXPECT_EQ(std::signbit(greatest[2]), n == 1);

  std::vector<std::int64_t> wrapped{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  auto wrapping = wrapped;
  all_reduce(wrapping);  // integers wrap
  EXPECT_EQ(wrapping[0], static_cast<std::int64_t>(static_cast<std::uint64_t>(wrapped[0]) * static_cast<std::uint64_t>(n)));
  EXPECT_EQ(wrapping[1], static_cast<std::int64_t>(static_cast<std::uint64_t>(wrapped[1]) * static_cast<std::uint64_t>(n)));
}

// The sum is exact, the quotient truncated toward zero.
WORLD_TEST(AllReduce, AverageOfIntegersTruncatesAndNeverOverflows) {
  COVERS("R-08", "Q-18", "C-05", "K-59");
  const int n = world_size();
  std::vector<std::int32_t> x{rank() == 0 ? -(2 * n - 1) : 0, rank() == 0 ? 2 * n - 1 : 0, std::numeric_limits<std::int32_t>::max(),
                              std::numeric_limits<std::int32_t>::min()};
  all_reduce(x, ReduceOp::avg);
  EXPECT_EQ(x, (std::vector<std::int32_t>{-1, 1, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()}));
  const std::uint64_t big = std::numeric_limits<std::uint64_t>::max() - static_cast<std::uint64_t>(rank());
  const std::uint64_t average = all_reduce(big, ReduceOp::avg);
  EXPECT_EQ(average, std::numeric_limits<std::uint64_t>::max() - static_cast<std::uint64_t>(n) / 2);  // of 0 … n-1, rounded away from it
}

// The exact average of integers, rounded once.
WORLD_TEST(Mean, TheMeanIsExact) {
  COVERS("C-05", "C-06");
  const int n = world_size();
  EXPECT_EQ(mean(rank()), (n - 1) / 2.0);
  EXPECT_EQ(mean(static_cast<std::int8_t>(rank() % 2 == 0 ? 127 : 126)), (126.0 * n + (n + 1) / 2) / n);
  EXPECT_EQ(mean(std::numeric_limits<std::int64_t>::max()), 9223372036854775807.0);
  EXPECT_EQ(mean(std::numeric_limits<std::uint64_t>::max()), 18446744073709551615.0);
  EXPECT_EQ(mean(0.5F * static_cast<float>(rank())), (n - 1) / 4.0);
  EXPECT_EQ(mean(bfloat16(2.0F)), 2.0);
}

// A value keeps its type and all of its bits.
WORLD_TEST(AllReduce, ValuesKeepTheirType) {
  COVERS("K-75", "C-06");
  const int n = world_size();
  EXPECT_EQ(all_reduce(std::int64_t{(1LL << 53) + 1}, ReduceOp::max), (1LL << 53) + 1);
  static_assert(std::is_same_v<decltype(all_reduce(std::int8_t{1})), std::int8_t>);
  static_assert(std::is_same_v<decltype(all_reduce(true, ReduceOp::lor)), bool>);
  EXPECT_EQ(all_reduce(rank() == n - 1, ReduceOp::lor), true);
  EXPECT_EQ(all_reduce(rank() == n - 1, ReduceOp::land), n == 1);
  EXPECT_EQ(all_reduce(2 * rank() + 1, ReduceOp::product), [n] {
    int product = 1;
    for (int r = 0; r < n; ++r) product *= 2 * r + 1;
    return product;
  }());
  EXPECT_EQ(all_reduce(std::complex<float>(1.0F, static_cast<float>(rank()))),
            std::complex<float>(static_cast<float>(n), static_cast<float>(n * (n - 1) / 2)));
  const double constant = rank() + 0.25;
  EXPECT_EQ(all_reduce(constant), n * (n - 1) / 2 + 0.25 * n);
}

// A callable where a ReduceOp may stand.
WORLD_TEST(AllReduce, AllReduceTakesACallable) {
  const int n = world_size();
  for (const std::size_t count : interesting_counts(sizeof(int))) {
    if (count > 40000) continue;
    auto x = values<std::uint32_t>(count, rank());
    all_reduce(x, [](std::uint32_t a, std::uint32_t b) { return a * 3 > b * 3 ? a : b; });  // the greater, in another way
    const auto last = values<std::uint32_t>(count, n - 1);
    ASSERT_EQ(difference(x, last), "") << count;
  }
  const std::uint32_t mask = 0xffU;
  const auto masked = [mask](std::uint32_t a, std::uint32_t b) { return (a + b) & mask; };
  EXPECT_EQ(all_reduce(200U, masked), n == 1 ? 200U : (200U * static_cast<unsigned>(n)) & 0xffU);
  std::vector<bfloat16> b{bfloat16(static_cast<float>(rank())), bfloat16(-1.0F)};
  all_reduce(b, [](bfloat16 l, bfloat16 r) { return bfloat16(std::max<float>(l, r)); });
  EXPECT_EQ(static_cast<float>(b[0]), static_cast<float>(n - 1));
  EXPECT_EQ(static_cast<float>(b[1]), -1.0F);
  EXPECT_EQ(all_reduce(std::complex<double>(0, rank()), [](std::complex<double> l, std::complex<double> r) { return l.imag() > r.imag() ? l : r; }),
            std::complex<double>(0, n - 1));
}

}  // namespace
