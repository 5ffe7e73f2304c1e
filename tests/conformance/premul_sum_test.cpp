// The sum of what the ranks have, each multiplied by a factor of its own.
#include <algorithm>
#include <array>
#include <complex>
#include <vector>

#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

/// A power of two, so that products and sums are exact.
double factor_of(int r) { return r % 2 == 0 ? 0.5 : 2.0; }

template <class T>
std::vector<T> products_summed(std::size_t count) {
  std::vector<T> sum(count);
  for (int r = 0; r < world_size(); ++r) {
    for (std::size_t i = 0; i < count; ++i) sum[i] = static_cast<T>(sum[i] + value<T>(r, i) * static_cast<T>(factor_of(r)));
  }
  return sum;
}

WORLD_TEST(Premul, AllReduceSumsProductsWithFactors) {
  COVERS("R-10");
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{37}, slot_bytes / sizeof(double) + 5}) {
    auto x = values<double>(count, rank());
    all_reduce(x, premul_sum(factor_of(rank())));
    ASSERT_EQ(difference(x, products_summed<double>(count)), "") << count;
    const auto in = values<float>(count, rank());
    std::vector<float> out(count);
    all_reduce_async(in, out, premul_sum(factor_of(rank()))).wait();
    ASSERT_EQ(difference(out, products_summed<float>(count)), "") << count;
    ASSERT_EQ(difference(in, values<float>(count, rank())), "");
  }
  EXPECT_EQ(all_reduce(8.0, premul_sum(0.25)), 2.0 * world_size());
  EXPECT_EQ(all_reduce(std::complex<float>(1, -2), premul_sum(0.5)), std::complex<float>(0.5F, -1) * static_cast<float>(world_size()));
  EXPECT_EQ(static_cast<float>(all_reduce(bfloat16(4), premul_sum(0.5))), 2.0F * static_cast<float>(world_size()));
  EXPECT_EQ(static_cast<float>(all_reduce(float16(4), premul_sum(0.5))), 2.0F * static_cast<float>(world_size()));
}

// The other ranks' buffers stay as they are; strided input.
WORLD_TEST(Premul, ReduceAndReduceScatterSumProductsWithFactors) {
  COVERS("R-10");
  const auto n = static_cast<std::size_t>(world_size());
  for (int dst = 0; dst < world_size(); ++dst) {
    auto x = values<double>(50, rank());
    reduce(x, dst, premul_sum(factor_of(rank())));
    ASSERT_EQ(difference(x, rank() == dst ? products_summed<double>(50) : values<double>(50, rank())), "");
  }
  const auto in = values<double>(9 * n, rank());
  const auto sum = products_summed<double>(9 * n);
  std::vector<double> out(9);
  reduce_scatter(in, out, premul_sum(factor_of(rank())));
  const auto mine = sum.begin() + 9 * rank();
  EXPECT_EQ(out, std::vector<double>(mine, mine + 9));
  std::fill(out.begin(), out.end(), -1.0);
  reduce_scatter_v(in, std::vector<std::size_t>(n, 9), out, premul_sum(factor_of(rank())));
  EXPECT_EQ(out, std::vector<double>(mine, mine + 9));

  auto memory = values<double>(20, rank());
  const std::int64_t shape[] = {10}, strides[] = {2};
  all_reduce(TensorView(memory.data(), DType::float64, shape, strides), premul_sum(factor_of(rank())));
  const auto expected = products_summed<double>(20);
  for (std::size_t i = 0; i < 20; ++i) ASSERT_EQ(memory[i], i % 2 == 0 ? expected[i] : value<double>(rank(), i));
}

WORLD_TEST(Premul, PremulSumRefusesIntegersAndScans) {
  std::array<int, 2> integers{1, 2};
  EXPECT_THROW(all_reduce(integers, premul_sum(2)), InvalidArgument);
  double x = 1;
  EXPECT_THROW(x = scan(x, premul_sum(2)), InvalidArgument);
  expect_usable();
}

// Factors may differ; that there are some may not.
MANY_TEST(Premul, PremulSumBesideASumIsAMismatch) {
  const bool odd = rank() == world_size() - 1;
  std::vector<double> x(5, 1.0);
  const auto error = thrown_by<Mismatch>([&] {
    if (odd) all_reduce(x, ReduceOp::sum);
    else all_reduce(x, premul_sum(2));
  });
  expect_culprit(error, world_size() - 1);
  EXPECT_EQ(error.operation(), "all_reduce");
  EXPECT_EQ(x, std::vector<double>(5, 1.0));
  expect_usable();
}

}  // namespace
