#include "../unit/kernels/oracle.h"
#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

std::vector<float> all_values(std::size_t count) {
  std::vector<float> all;
  for (int r = 0; r < world_size(); ++r) {
    const auto block = values<float>(count, r);
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

// Elsewhere the output may be empty, and is not touched.
WORLD_TEST(Gather, EveryRankGathersEveryLength) {
  COVERS("T-34", "W-02", "W-07", "C-03");
  const auto n = static_cast<std::size_t>(world_size());
  for (int dst = 0; dst < world_size(); ++dst) {
    for (const std::size_t count : interesting_counts(sizeof(float))) {
      if (dst > 1 && count > 20000) continue;
      const auto in = values<float>(count, rank());
      std::vector<float> out;
      if (rank() == dst) out.assign(n * count, -1.0F);
      else if (count % 2 == 1) out.assign(5, -2.0F);
      const auto before = out;
      gather(in, out, dst);
      ASSERT_EQ(difference(out, rank() == dst ? all_values(count) : before), "") << count << " to " << dst;
    }
  }
}

WORLD_TEST(Scatter, EveryRankScattersEveryLength) {
  COVERS("T-35", "W-02", "W-07");
  const auto n = static_cast<std::size_t>(world_size());
  for (int src = 0; src < world_size(); ++src) {
    for (const std::size_t count : interesting_counts(sizeof(float))) {
      if (src > 1 && count > 20000) continue;
      std::vector<float> in;
      if (rank() == src) in = values<float>(n * count, src);
      else if (count % 2 == 1) in = {1.0F};
      std::vector<float> out(count, -1.0F);
      scatter(in, out, src);
      const auto whole = values<float>(n * count, src);
      const auto own = std::span(whole).subspan(static_cast<std::size_t>(rank()) * count, count);
      ASSERT_EQ(difference(out, own), "") << count << " from " << src;
    }
  }
}

// In place: the root's own block.
WORLD_TEST(Gather, GatherAndScatterWorkInPlace) {
  const auto n = static_cast<std::size_t>(world_size());
  const auto me = static_cast<std::size_t>(rank());
  for (const std::size_t count : {std::size_t{2}, slot_bytes / 4 + 3}) {
    std::vector<float> all(n * count, -1.0F);
    const auto own = std::span(all).subspan(me * count, count);
    const auto mine = values<float>(count, rank());
    std::copy(mine.begin(), mine.end(), own.begin());
    gather(own, all, 0);
    if (rank() == 0) {
      ASSERT_EQ(difference(all, all_values(count)), "");
    }
    for (auto& x : all) x += 1.0F;
    scatter(all, own, 0);
    auto expected = mine;
    for (auto& x : expected) x += 1.0F;
    ASSERT_EQ(difference(own, expected), "");
  }
}

WORLD_TEST(Gather, EveryDtypeComesBackUnchanged) {
  const auto n = static_cast<std::size_t>(world_size());
  const int root = world_size() - 1;
  for (const DType dtype : oracle::every_dtype) {
    auto in = oracle::values(dtype, 61, static_cast<std::uint64_t>(rank()));
    oracle::Bytes all(rank() == root ? in.size() * n : 0);
    gather(TensorView(in.data(), dtype, 61), TensorView(all.data(), dtype, rank() == root ? 61 * n : 0), root);
    if (rank() == root) {
      for (std::size_t r = 0; r < n; ++r) {
        const auto block = oracle::values(dtype, 61, r);
        ASSERT_TRUE(std::equal(block.begin(), block.end(), all.begin() + static_cast<std::ptrdiff_t>(r * block.size()))) << to_string(dtype);
      }
    }
    oracle::Bytes back(in.size());
    scatter(TensorView(all.data(), dtype, rank() == root ? 61 * n : 0), TensorView(back.data(), dtype, 61), root);
    ASSERT_TRUE(back == in) << to_string(dtype);
  }
}

// nullopt everywhere but at the root, whose default is rank 0.
WORLD_TEST(Gather, ValuesAreReturned) {
  COVERS("TS-10", "C-03", "K-05", "K-29", "K-70");
  for (int dst = 0; dst < world_size(); ++dst) {
    const std::optional<std::vector<std::int16_t>> all = gather(static_cast<std::int16_t>(100 * rank() + dst), dst);
    ASSERT_EQ(all.has_value(), rank() == dst);
    for (int r = 0; all && r < world_size(); ++r) EXPECT_EQ((*all)[static_cast<std::size_t>(r)], 100 * r + dst);
  }
  EXPECT_EQ(gather(1.5).has_value(), rank() == 0);
}

}  // namespace
