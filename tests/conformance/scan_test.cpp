#include "inputs.h"
#include "kernels/reduce.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

WORLD_TEST(Scan, ResultsAreRightAtEveryLength) {
  for (const std::size_t count : interesting_counts(sizeof(float))) {
    auto inclusive = values<float>(count, rank());
    scan(inclusive);
    ASSERT_EQ(difference(inclusive, sums<float>(count, rank() + 1)), "") << count;
    auto exclusive = values<float>(count, rank());
    exscan(exclusive);
    // Rank 0 has nobody before it: its buffer stays as it was.
    ASSERT_EQ(difference(exclusive, rank() == 0 ? values<float>(count, 0) : sums<float>(count, rank())), "") << count;
  }
}

WORLD_TEST(Scan, EveryDtypeAndOperationIsScanned) {
  for (const DType dtype : oracle::every_dtype) {
    for (const ReduceOp op : oracle::every_op) {
      std::vector<oracle::Bytes> first;
      for (int r = 0; r <= rank(); ++r) first.push_back(conformance::inputs(dtype, op, 83, 9 + static_cast<std::uint64_t>(r)));
      auto x = first.back();
      auto y = x;
      const TensorView inclusive(x.data(), dtype, 83), exclusive(y.data(), dtype, 83);
      if (op == ReduceOp::avg || !kernels::supports(dtype, op)) {
        EXPECT_THROW(scan(inclusive, op), InvalidArgument);
        EXPECT_THROW(exscan(exclusive, op), InvalidArgument);
        continue;
      }
      scan(inclusive, op);
      ASSERT_TRUE(x == oracle::reduce(first, 83, dtype, op, 1)) << to_string(dtype) << " " << to_string(op);
      exscan(exclusive, op);
      if (rank() == 0) {
        ASSERT_TRUE(y == first.back());
      } else {
        first.pop_back();
        ASSERT_TRUE(y == oracle::reduce(first, 83, dtype, op, 1)) << to_string(dtype) << " " << to_string(op);
      }
    }
  }
}

WORLD_TEST(Scan, ValuesAreReturned) {
  const int me = rank();
  EXPECT_EQ(scan(me + 1), (me + 1) * (me + 2) / 2);
  EXPECT_EQ(exscan(me + 1), me == 0 ? 1 : me * (me + 1) / 2);
  EXPECT_EQ(scan(2.0, ReduceOp::product), static_cast<double>(1 << (me + 1)));
  EXPECT_EQ(exscan(10 - me, [](int a, int b) { return a < b ? a : b; }), me == 0 ? 10 : 11 - me);
}

}  // namespace
