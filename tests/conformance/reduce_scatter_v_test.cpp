#include <array>

#include "blocks.h"
#include "covers.h"
#include "inputs.h"
#include "kernels/reduce.h"

using namespace unisono;
using namespace conformance;

namespace {

WORLD_TEST(ReduceScatterV, ResultsAreRightInEveryDivision) {
  for (const Lengths& counts : uneven(world_size(), sizeof(double))) {
    const auto in = values<double>(total(counts), rank());
    std::vector<double> out(own(counts), -1.0);
    reduce_scatter_v(in, counts, out);
    const auto whole = sums<double>(total(counts), world_size());
    ASSERT_EQ(difference(out, std::span(whole).subspan(before(counts, rank()), own(counts))), "") << testing::PrintToString(counts);
    ASSERT_EQ(difference(in, values<double>(total(counts), rank())), "") << "the input was written to";
  }
}

// Rule 8: in the order of the ranks, halves in float32, avg exact: bit for bit what all_reduce gives.
WORLD_TEST(ReduceScatterV, EveryDtypeAndOperationIsCombined) {
  COVERS("R-01");
  const auto n = static_cast<std::size_t>(world_size());
  Lengths counts;
  for (std::size_t r = 0; r < n; ++r) counts.push_back(r == 1 ? 0 : 31 + 7 * r);
  const std::size_t count = total(counts);
  for (const DType dtype : oracle::every_dtype) {
    for (const ReduceOp op : oracle::every_op) {
      std::vector<oracle::Bytes> inputs;
      for (std::size_t r = 0; r < n; ++r) inputs.push_back(conformance::inputs(dtype, op, count, 31 + r));
      oracle::Bytes out(own(counts) * size_of(dtype));
      auto& in = inputs[static_cast<std::size_t>(rank())];
      if (!kernels::supports(dtype, op)) {
        EXPECT_THROW(reduce_scatter_v(line(in, dtype), counts, line(out, dtype), op), InvalidArgument);
        continue;
      }
      reduce_scatter_v(line(in, dtype), counts, line(out, dtype), op);
      const auto whole = oracle::reduce(inputs, count, dtype, op, n);
      const auto block = whole.begin() + static_cast<std::ptrdiff_t>(before(counts, rank()) * size_of(dtype));
      ASSERT_TRUE(std::equal(out.begin(), out.end(), block)) << to_string(dtype) << " " << to_string(op);
      all_reduce(line(in, dtype), op);
      ASSERT_TRUE(std::equal(out.begin(), out.end(), in.begin() + (block - whole.begin()))) << to_string(dtype) << " " << to_string(op);
    }
  }
}

// The output may be the caller's block of the input.
WORLD_TEST(ReduceScatterV, CallsWorkInPlace) {
  for (const Lengths& counts : uneven(world_size(), sizeof(double))) {
    auto in = values<double>(total(counts), rank());
    const auto mine = std::span(in).subspan(before(counts, rank()), own(counts));
    reduce_scatter_v(in, counts, mine);
    const auto whole = sums<double>(total(counts), world_size());
    ASSERT_EQ(difference(mine, std::span(whole).subspan(before(counts, rank()), own(counts))), "");
  }
}

WORLD_TEST(ReduceScatterV, CallablesCombineStridedViewsAsynchronously) {
  for (const Lengths& counts : uneven(world_size(), sizeof(int))) {
    if (total(counts) > 40000) continue;
    const auto in = values<int>(total(counts), rank());
    std::vector<int> out(2 * own(counts), -1);
    reduce_scatter_v_async(in, counts, std::span(out).first(own(counts)), [](int a, int b) { return a < b ? a : b; }).wait();
    const auto least = values<int>(total(counts), 0);
    ASSERT_EQ(difference(std::span(out).first(own(counts)), std::span(least).subspan(before(counts, rank()), own(counts))), "");

    std::fill(out.begin(), out.end(), -1);
    const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(own(counts))}, strides{2};
    reduce_scatter_v(in, counts, TensorView(out.data(), DType::int32, shape, strides), ReduceOp::max);
    const auto most = values<int>(total(counts), world_size() - 1);
    for (std::size_t i = 0; i < own(counts); ++i) {
      ASSERT_EQ(out[2 * i], most[before(counts, rank()) + i]);
      ASSERT_EQ(out[2 * i + 1], -1);
    }
  }
}

WORLD_TEST(ReduceScatterV, CallsWorkInGroups) {
  const auto half = split_group(world(), rank() % 2);
  for (const Lengths& counts : uneven(half->size(), sizeof(double))) {
    const auto in = values<double>(total(counts), half->rank());
    std::vector<double> out(counts[static_cast<std::size_t>(half->rank())]);
    reduce_scatter_v(in, counts, out, ReduceOp::sum, *half);
    const auto whole = sums<double>(total(counts), half->size());
    ASSERT_EQ(difference(out, std::span(whole).subspan(before(counts, half->rank()), out.size())), "");
  }
}

WORLD_TEST(ReduceScatterV, ReduceScatterVRefusesWrongLengths) {
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<float> in(3 * n), out(3);
  EXPECT_THROW(reduce_scatter_v(in, Lengths(n - 1, 3), out), InvalidArgument);
  EXPECT_THROW(reduce_scatter_v(in, Lengths(n, 2), out), InvalidArgument);
  EXPECT_THROW(reduce_scatter_v(std::span(in).first(3 * n - 1), Lengths(n, 3), out), InvalidArgument);
  EXPECT_THROW(reduce_scatter_v(in, Lengths(n, 3), out, ReduceOp::bxor), InvalidArgument);
  expect_usable();
}

MANY_TEST(ReduceScatterV, CallsThatDifferAreAMismatch) {
  const auto n = static_cast<std::size_t>(world_size());
  for (int odd = 0; odd < world_size(); ++odd) {
    Lengths counts(n, 4);
    std::vector<float> in(4 * n), out(4, -1.0F);
    EXPECT_THROW(reduce_scatter_v(in, counts, out, rank() == odd ? ReduceOp::min : ReduceOp::max), Mismatch);
    if (rank() == odd) counts[static_cast<std::size_t>((odd + 1) % world_size())] = 3;
    EXPECT_THROW(reduce_scatter_v(std::span(in).first(total(counts)), counts, out), Mismatch);
    EXPECT_EQ(out, std::vector<float>(4, -1.0F));
    expect_usable();
  }
}

}  // namespace
