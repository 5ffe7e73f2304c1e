#include "covers.h"
#include "inputs.h"
#include "kernels/reduce.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

WORLD_TEST(ReduceScatter, ResultsAreRightAtEveryLength) {
  COVERS("TS-23", "TS-24", "W-02");
  const auto n = static_cast<std::size_t>(world_size());
  const auto me = static_cast<std::size_t>(rank());
  for (std::size_t count : interesting_counts(sizeof(float))) {
    if (count * n > 300000) count = 300000 / n;  // so that sums stay exact
    const auto in = values<float>(n * count, rank());
    std::vector<float> out(count, -1.0F);
    reduce_scatter(in, out);
    const auto whole = sums<float>(n * count, world_size());
    ASSERT_EQ(difference(out, std::span(whole).subspan(me * count, count)), "") << count;
    ASSERT_EQ(difference(in, values<float>(n * count, rank())), "") << "the input was written to";
  }
}

WORLD_TEST(ReduceScatter, EveryDtypeAndOperationIsCombined) {
  COVERS("R-01", "R-02", "R-03", "R-04", "R-05", "R-06", "R-07", "R-08", "R-13", "W-03", "W-04");
  const auto n = static_cast<std::size_t>(world_size());
  constexpr std::size_t count = 43;
  for (const DType dtype : oracle::every_dtype) {
    for (const ReduceOp op : oracle::every_op) {
      std::vector<oracle::Bytes> inputs;
      for (std::size_t r = 0; r < n; ++r) inputs.push_back(conformance::inputs(dtype, op, n * count, 31 + r));
      oracle::Bytes out(count * size_of(dtype));
      auto& in = inputs[static_cast<std::size_t>(rank())];
      const TensorView from(in.data(), dtype, n * count), to(out.data(), dtype, count);
      if (!kernels::supports(dtype, op)) {
        EXPECT_THROW(reduce_scatter(from, to, op), InvalidArgument);
        continue;
      }
      reduce_scatter(from, to, op);
      const auto whole = oracle::reduce(inputs, n * count, dtype, op, n);
      const auto own = whole.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rank()) * out.size());
      ASSERT_TRUE(std::equal(out.begin(), out.end(), own)) << to_string(dtype) << " " << to_string(op);
    }
  }
}

// The output may be the caller's block of the input.
WORLD_TEST(ReduceScatter, CallsWorkInPlace) {
  const auto n = static_cast<std::size_t>(world_size());
  const auto me = static_cast<std::size_t>(rank());
  for (const std::size_t count : {std::size_t{1}, std::size_t{97}, slot_bytes / 8 + 1}) {
    auto in = values<double>(n * count, rank());
    const auto own = std::span(in).subspan(me * count, count);
    reduce_scatter(in, own);
    const auto whole = sums<double>(n * count, world_size());
    ASSERT_EQ(difference(own, std::span(whole).subspan(me * count, count)), "") << count;
  }
}

WORLD_TEST(ReduceScatter, CallablesCombineTheElements) {
  const auto n = static_cast<std::size_t>(world_size());
  const auto in = values<int>(5 * n, rank());
  std::vector<int> out(5);
  reduce_scatter(in, out, [](int a, int b) { return a < b ? a : b; });
  const auto least = values<int>(5 * n, 0);
  EXPECT_EQ(difference(out, std::span(least).subspan(static_cast<std::size_t>(rank()) * 5, 5)), "");
}

}  // namespace
