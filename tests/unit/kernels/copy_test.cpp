#include "kernels/copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/dispatch.h"

namespace unisono {
namespace {

using Copy = void (*)(void*, const void*, std::size_t) noexcept;

std::vector<std::uint8_t> pattern(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::uint8_t> out(bytes);
  for (auto& value : out) value = static_cast<std::uint8_t>((seed = seed * 1664525U + 1013904223U) >> 24);
  return out;
}

void copies_exactly(Copy copy) {
  constexpr std::size_t margin = 130;
  for (const std::size_t bytes : {0, 1, 31, 64, 1000, 2047, 2048, 2049, 4093, 32768, 32769, 100003}) {
    for (const std::size_t to : {0, 1, 33, 63}) {
      for (const std::size_t from : {0, 5, 64}) {
        const auto source = pattern(bytes + margin, 1);
        const auto before = pattern(bytes + margin, 2);
        auto target = before;
        auto expected = before;
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from), bytes, expected.begin() + static_cast<std::ptrdiff_t>(to));
        copy(target.data() + to, source.data() + from, bytes);
        ASSERT_EQ(target, expected) << bytes << " bytes from " << from << " to " << to;
      }
    }
  }
  auto same = pattern(5000, 3);
  copy(same.data(), same.data(), same.size());
  EXPECT_EQ(same, pattern(5000, 3));
}

class CopyOn : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if ((kernels::usable_targets() & GetParam()) == 0) GTEST_SKIP() << "not on this machine";
    kernels::use_targets(GetParam());
  }
  void TearDown() override { kernels::use_targets(0); }
};

TEST_P(CopyOn, ACopyCopiesTheseBytesAndNoOthers) { copies_exactly(kernels::copy); }
TEST_P(CopyOn, AStreamedCopyWritesTheseBytesAndNoOthers) { copies_exactly(kernels::copy_streaming); }

INSTANTIATE_TEST_SUITE_P(Targets, CopyOn, testing::Values(HWY_STATIC_TARGET, HWY_SSE4, HWY_AVX2, HWY_AVX3));

}  // namespace
}  // namespace unisono
