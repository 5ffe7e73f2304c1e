#include "../unit/kernels/oracle.h"
#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

// Block r of the input goes to rank r; block r of the output is from rank r.
WORLD_TEST(AllToAll, ResultsAreRightAtEveryLength) {
  COVERS("W-02");
  const auto n = static_cast<std::size_t>(world_size());
  const auto me = static_cast<std::size_t>(rank());
  for (const std::size_t count : interesting_counts(sizeof(std::int64_t))) {
    if (count * n > 400000) continue;
    const auto in = values<std::int64_t>(n * count, rank());
    std::vector<std::int64_t> out(n * count, -1), expected(n * count);
    all_to_all(in, out);
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t i = 0; i < count; ++i) expected[r * count + i] = value<std::int64_t>(static_cast<int>(r), me * count + i);
    }
    ASSERT_EQ(difference(out, expected), "") << count;
  }
}

WORLD_TEST(AllToAll, EveryDtypeIsCarriedBitForBit) {
  COVERS("W-04");
  const auto n = static_cast<std::size_t>(world_size());
  for (const DType dtype : oracle::every_dtype) {
    auto in = oracle::values(dtype, 9 * n, static_cast<std::uint64_t>(rank()));
    oracle::Bytes out(in.size()), expected;
    all_to_all(TensorView(in.data(), dtype, 9 * n), TensorView(out.data(), dtype, 9 * n));
    for (std::size_t r = 0; r < n; ++r) {
      const auto theirs = oracle::values(dtype, 9 * n, r);
      const auto block = theirs.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rank()) * 9 * size_of(dtype));
      expected.insert(expected.end(), block, block + static_cast<std::ptrdiff_t>(9 * size_of(dtype)));
    }
    ASSERT_TRUE(out == expected) << to_string(dtype);
  }
}

MANY_TEST(AllToAll, AllToAllRefusesWhatCannotBeSharedOut) {
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<int> in(n + 1), out(n + 1);
  EXPECT_THROW(all_to_all(in, out), InvalidArgument);
  std::vector<int> same(n);
  EXPECT_THROW(all_to_all(same, same), InvalidArgument);
}

}  // namespace
