#include <array>

#include "blocks.h"
#include "covers.h"

using namespace unisono;
using namespace conformance;

namespace {

// To every member; elsewhere the output may be empty, and is not touched.
WORLD_TEST(GatherV, EveryRankGathersEveryDivision) {
  COVERS("W-02", "W-07", "C-03");
  for (int dst = 0; dst < world_size(); ++dst) {
    for (const Lengths& counts : uneven(world_size(), sizeof(float))) {
      if (dst > 1 && total(counts) > 40000) continue;
      const auto in = values<float>(own(counts), rank());
      std::vector<float> out;
      if (rank() == dst) out.assign(total(counts), -1.0F);
      else if (total(counts) % 2 == 1) out.assign(5, -2.0F);
      const auto before_call = out;
      gather_v(in, out, counts, dst);
      ASSERT_EQ(difference(out, rank() == dst ? blocks_of_all<float>(counts) : before_call), "") << testing::PrintToString(counts) << " to " << dst;
    }
  }
}

// Only each rank knows its own length. All learn the counts; only the root's vector is sized.
WORLD_TEST(GatherV, GatherVSizesItsOutput) {
  for (int dst = 0; dst < world_size(); ++dst) {
    for (const Lengths& counts : uneven(world_size(), sizeof(double))) {
      if (dst > 0 && total(counts) > 40000) continue;
      std::vector<double> out(2, -1.0);
      ASSERT_EQ(gather_v(values<double>(own(counts), rank()), out, dst), counts);
      ASSERT_EQ(difference(out, rank() == dst ? blocks_of_all<double>(counts) : std::vector<double>(2, -1.0)), "");
    }
  }
  std::vector<int> to_the_first;
  EXPECT_EQ(gather_v(std::vector<int>{rank()}, to_the_first), Lengths(static_cast<std::size_t>(world_size()), 1));
  EXPECT_EQ(to_the_first.empty(), rank() != 0);
}

// In place at the root, and back again.
WORLD_TEST(GatherV, EveryDtypeComesBackUnchangedInPlace) {
  COVERS("W-04");
  const int root = world_size() - 1;
  Lengths counts;
  for (int r = 0; r < world_size(); ++r) counts.push_back(static_cast<std::size_t>(r % 2 == 0 ? 23 + r : 5 * r - 5));
  for (const DType dtype : oracle::every_dtype) {
    const auto expected = bytes_of_all(dtype, counts);
    oracle::Bytes all(rank() == root ? expected.size() : 0), mine = oracle::values(dtype, own(counts), static_cast<std::uint64_t>(rank()));
    const oracle::Bytes kept = mine;
    TensorView part = line(mine, dtype);
    if (rank() == root) {
      std::byte* block = all.data() + before(counts, root) * size_of(dtype);
      std::copy(mine.begin(), mine.end(), block);
      part = TensorView(block, dtype, own(counts));
    }
    gather_v(part, line(all, dtype), counts, root);
    ASSERT_TRUE(rank() != root || all == expected) << to_string(dtype);
    std::fill(mine.begin(), mine.end(), std::byte{0});
    scatter_v(line(all, dtype), counts, line(mine, dtype), root);
    ASSERT_TRUE(mine == kept) << to_string(dtype);
  }
}

WORLD_TEST(GatherV, AsynchronousCallsFollowStridedViews) {
  const int root = world_size() / 2;
  Lengths counts;
  for (int r = 0; r < world_size(); ++r) counts.push_back(static_cast<std::size_t>(3000 * (r % 2) + 7));
  auto in = values<float>(2 * own(counts), rank());
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(own(counts))}, strides{2};
  std::vector<float> out(rank() == root ? total(counts) : 0);
  Work work = gather_v_async(TensorView(in.data(), DType::float32, shape, strides), out, counts, root);
  std::vector<float> second(own(counts)), again(out.size());
  work.wait();
  std::size_t at = 0;
  for (int r = 0; rank() == root && r < world_size(); ++r) {
    for (std::size_t i = 0; i < counts[static_cast<std::size_t>(r)]; ++i, ++at) ASSERT_EQ(out[at], value<float>(r, 2 * i));
  }
  scatter_v_async(out, counts, second, root).wait();
  for (std::size_t i = 0; i < second.size(); ++i) ASSERT_EQ(second[i], value<float>(rank(), 2 * i));
}

// Roots are ranks of the group; GlobalRank is translated; who is no member is refused.
WORLD_TEST(GatherV, CallsWorkInGroups) {
  COVERS("W-06", "W-07", "C-07");
  const auto half = split_group(world(), rank() % 2, -rank());
  for (int dst = 0; dst < half->size(); ++dst) {
    Lengths counts;
    for (int r = 0; r < half->size(); ++r) counts.push_back(static_cast<std::size_t>(10 + r));
    const auto mine = values<int>(counts[static_cast<std::size_t>(half->rank())], half->rank());
    std::vector<int> out, same;
    gather_v(mine, out, GlobalRank{half->global_rank(dst)}, *half);
    ASSERT_EQ(out, half->rank() == dst ? blocks_of_all<int>(counts) : std::vector<int>{});
    same.resize(out.size());
    gather_v(mine, same, counts, dst, *half);
    ASSERT_EQ(same, out);
    std::vector<int> back(mine.size());
    scatter_v(out, counts, back, dst, *half);
    ASSERT_EQ(back, mine);
  }
  std::vector<int> out;
  EXPECT_THROW(gather_v(std::vector<int>{1}, out, half->size(), *half), InvalidArgument);
  EXPECT_THROW(gather_v(std::vector<int>{1}, out, -1, *half), InvalidArgument);
  EXPECT_THROW(gather_v(std::vector<int>{1}, out, GlobalRank{world_size()}, *half), InvalidArgument);
  expect_usable(*half);
}

WORLD_TEST(GatherV, GatherVRefusesWrongLengths) {
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<float> in(3), out(3 * n);
  EXPECT_THROW(gather_v(in, out, Lengths(n + 1, 3)), InvalidArgument);
  EXPECT_THROW(gather_v(in, out, Lengths(n, 2)), InvalidArgument);
  EXPECT_THROW(gather_v(in, out, Lengths(n, 3), world_size()), InvalidArgument);
  std::vector<float> longer(3 * n + 1);
  if (n == 1) {
    EXPECT_THROW(gather_v(in, longer, Lengths(n, 3)), InvalidArgument);
  }
  expect_usable();
}

MANY_TEST(GatherV, CountsOrRootsThatDifferAreAMismatch) {
  const auto n = static_cast<std::size_t>(world_size());
  for (int odd = 0; odd < world_size(); ++odd) {
    Lengths counts(n, 4);
    std::vector<float> in(4), out(4 * n, -1.0F);
    EXPECT_THROW(gather_v(in, out, counts, rank() == odd ? 1 : 0), Mismatch);
    if (rank() == odd) counts[static_cast<std::size_t>((odd + 1) % world_size())] = 3;
    std::vector<float> fits(total(counts), -1.0F);
    EXPECT_THROW(gather_v(in, fits, counts, 0), Mismatch);
    EXPECT_EQ(fits, std::vector<float>(fits.size(), -1.0F));
    expect_usable();
  }
}

// Counts of one call may take different numbers of bytes on their way: they are compared all the same.
WORLD_TEST_IN((Worlds{.at_least = 3}), GatherV, CountsFarApartAreAMismatch) {
  Lengths counts(static_cast<std::size_t>(world_size()), 1);
  counts[0] = counts[2] = 200;
  if (rank() == 1) counts[0] = 1, counts[2] = 399;  // with the same sum, and the same block of its own
  std::vector<std::int16_t> in(own(counts), 1), out(total(counts), -1);
  const auto error = thrown_by<Mismatch>([&] { gather_v(in, out, counts, 0); });
  EXPECT_NE(error.message().find("[200, 1, 200"), std::string::npos) << error.what();
  EXPECT_NE(error.message().find("[1, 1, 399"), std::string::npos) << error.what();
  EXPECT_EQ(out, std::vector<std::int16_t>(total(counts), -1));
  expect_usable();
}

}  // namespace
