#include <array>

#include "blocks.h"
#include "covers.h"

using namespace unisono;
using namespace conformance;

namespace {

// From every member; what the others give does not count.
WORLD_TEST(ScatterV, EveryRankScattersEveryDivision) {
  COVERS("W-02", "W-07");
  for (int src = 0; src < world_size(); ++src) {
    for (const Lengths& counts : uneven(world_size(), sizeof(float))) {
      if (src > 1 && total(counts) > 40000) continue;
      std::vector<float> in;
      if (rank() == src) in = values<float>(total(counts), src);
      else if (total(counts) % 2 == 1) in = {1.0F, 2.0F};
      const auto given = in;
      std::vector<float> out(own(counts), -1.0F);
      scatter_v(in, counts, out, src);
      const auto whole = values<float>(total(counts), src);
      ASSERT_EQ(difference(out, std::span(whole).subspan(before(counts, rank()), own(counts))), "")
          << testing::PrintToString(counts) << " from " << src;
      ASSERT_EQ(in, given) << "the input was written to";
    }
  }
}

// The root's block of the input may be its output.
WORLD_TEST(ScatterV, CallsWorkInPlace) {
  for (const Lengths& counts : uneven(world_size(), sizeof(double))) {
    auto all = values<double>(rank() == 0 ? total(counts) : 0, 0);
    std::vector<double> elsewhere(rank() == 0 ? 0 : own(counts));
    const auto out = rank() == 0 ? std::span(all).first(own(counts)) : std::span(elsewhere);
    scatter_v(all, counts, out);
    const auto whole = values<double>(total(counts), 0);
    ASSERT_EQ(difference(out, std::span(whole).subspan(before(counts, rank()), own(counts))), "");
  }
}

WORLD_TEST(ScatterV, ScatterVRefusesWrongLengths) {
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<float> in(3 * n), out(3);
  EXPECT_THROW(scatter_v(in, Lengths(n + 1, 3), out), InvalidArgument);
  EXPECT_THROW(scatter_v(in, Lengths(n, 2), out), InvalidArgument);
  EXPECT_THROW(scatter_v(in, Lengths(n, 3), out, -1), InvalidArgument);
  std::vector<std::int32_t> other(3);
  if (n == 1) {
    EXPECT_THROW(scatter_v(in, Lengths(n, 3), other), InvalidArgument);
  }
  expect_usable();
}

MANY_TEST(ScatterV, CountsThatDifferAreAMismatch) {
  const auto n = static_cast<std::size_t>(world_size());
  for (int odd = 0; odd < world_size(); ++odd) {
    Lengths counts(n, 4);
    if (rank() == odd) counts[static_cast<std::size_t>((odd + 1) % world_size())] = 3;
    std::vector<float> in(total(counts)), out(4, -1.0F);
    EXPECT_THROW(scatter_v(in, counts, out), Mismatch);
    EXPECT_EQ(out, std::vector<float>(4, -1.0F));
    expect_usable();
  }
}

}  // namespace
