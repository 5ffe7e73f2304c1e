#include "../unit/kernels/oracle.h"
#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

WORLD_TEST(Broadcast, EveryRankBroadcastsEveryLength) {
  COVERS("T-26", "W-02", "W-07");
  for (int src = 0; src < world_size(); ++src) {
    for (const std::size_t count : interesting_counts(sizeof(std::int32_t))) {
      if (src > 1 && count > 20000) continue;
      auto x = values<std::int32_t>(count, rank());
      broadcast(x, src);
      ASSERT_EQ(difference(x, values<std::int32_t>(count, src)), "") << count << " from " << src;
    }
  }
  std::vector<char> x{static_cast<char>('a' + rank())};
  broadcast(x);  // from 0 where nothing else is said
  EXPECT_EQ(x[0], 'a');
}

// Every bit of every dtype.
WORLD_TEST(Broadcast, EveryDtypeIsCarriedBitForBit) {
  COVERS("T-26", "W-03", "W-04");
  for (const DType dtype : oracle::every_dtype) {
    for (int src = 0; src < world_size(); ++src) {
      auto x = oracle::values(dtype, 129, static_cast<std::uint64_t>(rank()));
      broadcast(TensorView(x.data(), dtype, 129), src);
      ASSERT_TRUE(x == oracle::values(dtype, 129, static_cast<std::uint64_t>(src))) << to_string(dtype);
    }
  }
}

// A number keeps its type and bits.
WORLD_TEST(Broadcast, ValuesAreReturned) {
  COVERS("K-24", "C-06");
  for (int src = 0; src < world_size(); ++src) {
    EXPECT_EQ(broadcast(16777217 + rank(), src), 16777217 + src);
    EXPECT_EQ(broadcast(-1e-100 * (rank() + 1), src), -1e-100 * (src + 1));
    EXPECT_EQ(broadcast(rank() == src, src), true);
    EXPECT_EQ(broadcast(static_cast<std::uint8_t>(129 + rank()), GlobalRank{src}), 129 + src);
    EXPECT_EQ(broadcast(std::complex<double>(rank(), -rank()), src), std::complex<double>(src, -src));
  }
}

}  // namespace
