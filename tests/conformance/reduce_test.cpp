#include "covers.h"
#include "inputs.h"
#include "kernels/reduce.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

// The result is at dst only; the other ranks' buffers stay as they are.
WORLD_TEST(Reduce, EveryRankIsARootAndTheOthersAreLeftAlone) {
  COVERS("T-30", "W-07", "K-11");
  const int n = world_size();
  for (int dst = 0; dst < n; ++dst) {
    for (const std::size_t count : interesting_counts(sizeof(float))) {
      if (dst > 1 && count > 20000) continue;
      const auto own = values<float>(count, rank());
      auto x = own;
      reduce(x, dst);
      ASSERT_EQ(difference(x, rank() == dst ? sums<float>(count, n) : own), "") << count << " to " << dst;
    }
  }
}

WORLD_TEST(Reduce, EveryDtypeAndOperationIsCombined) {
  const int dst = world_size() - 1;
  for (const DType dtype : oracle::every_dtype) {
    for (const ReduceOp op : oracle::every_op) {
      for (const std::size_t count : {std::size_t{3}, std::size_t{1200}}) {
        std::vector<oracle::Bytes> inputs;
        for (int r = 0; r < world_size(); ++r) inputs.push_back(conformance::inputs(dtype, op, count, 77 * count + static_cast<std::size_t>(r)));
        const auto own = inputs[static_cast<std::size_t>(rank())];
        auto x = own;
        const TensorView view(x.data(), dtype, count);
        if (!kernels::supports(dtype, op)) {
          EXPECT_THROW(reduce(view, dst, op), InvalidArgument);
          continue;
        }
        reduce(view, dst, op);
        ASSERT_TRUE(x == (rank() == dst ? oracle::reduce(inputs, count, dtype, op, inputs.size()) : own))
            << to_string(dtype) << " " << to_string(op) << " of " << count;
      }
    }
  }
}

WORLD_TEST(Reduce, ValuesAreReturned) {
  const int n = world_size();
  for (int dst = 0; dst < n; ++dst) {
    const std::optional<long> sum = reduce(10L * rank() + dst, dst);
    ASSERT_EQ(sum.has_value(), rank() == dst);
    if (sum) {
      EXPECT_EQ(*sum, 10L * n * (n - 1) / 2 + static_cast<long>(n) * dst);
    }
    const auto greatest = reduce(rank(), GlobalRank{dst}, ReduceOp::max);
    ASSERT_EQ(greatest.has_value(), rank() == dst);
    if (greatest) {
      EXPECT_EQ(*greatest, n - 1);
    }
    const auto least = reduce(5.0 - rank(), dst, [](double a, double b) { return a < b ? a : b; });
    if (rank() == dst) {
      EXPECT_EQ(least, 6.0 - n);
    }
  }
}

}  // namespace
