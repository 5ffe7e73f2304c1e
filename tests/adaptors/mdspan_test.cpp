// Types of other libraries as buffers: std::mdspan, where the compiler has one, and a double of it.
#if __has_include(<version>)
#include <version>
#endif
#if defined __cpp_lib_mdspan
#include <mdspan>
#endif

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "adaptors/mdspan_double.h"
#include "conformance/world.h"
#include "unisono/mdspan.h"

using namespace unisono;
using namespace conformance;
using namespace mdspan_double;

namespace {

static_assert(Buffer<mdspan<float, 2>&> && Buffer<mdspan<float, 2>> && Buffer<const mdspan<float, 2>&>, "it is a handle");
static_assert(InBuffer<mdspan<const float, 2>&> && !Buffer<mdspan<const float, 2>&>, "constant elements are read alone");
static_assert(!InBuffer<mdspan<std::string, 1>&>);

TEST(Mdspan, ShapesAreInTheOrderOfTheMemory) {
  std::vector<double> memory(6);
  const auto shape = [](const auto& m) {
    const TensorView view = detail::view_of(m);
    EXPECT_TRUE(view.is_contiguous());
    EXPECT_EQ(view.dtype(), DType::float64);
    return std::vector<std::int64_t>(view.shape().begin(), view.shape().end());
  };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape(mdspan<double, 2>(memory.data(), {2, 3})), (Shape{2, 3}));
  EXPECT_EQ(shape(mdspan<double, 2, layout_left>(memory.data(), {2, 3})), (Shape{3, 2}));
  EXPECT_EQ(shape(mdspan<double, 3, layout_stride>(memory.data(), {2, 1, 3}, {{1, 40, 2}})), (Shape{3, 1, 2}));
  EXPECT_EQ(shape(mdspan<double, 3, layout_stride>(memory.data(), {1, 2, 3}, {{9, 3, 1}})), (Shape{1, 2, 3}));
  EXPECT_EQ(shape(mdspan<double, 3, layout_stride>(memory.data(), {2, 1, 3}, {{3, 7, 1}})), (Shape{2, 1, 3}));
  EXPECT_EQ(shape(mdspan<double, 2>(memory.data(), {0, 3})), (Shape{0, 3}));
  std::vector<double> cube(24);
  EXPECT_EQ(shape(mdspan<double, 3, layout_stride>(cube.data(), {2, 3, 4}, {{4, 8, 1}})), (Shape{3, 2, 4}));
}

WORLD_TEST(Mdspan, CollectivesTakeEveryLayoutWithoutGaps) {
  const int n = world_size();
  auto rows = values<float>(6, rank()), columns = rows;
  all_reduce(mdspan<float, 2>(rows.data(), {2, 3}));
  mdspan<float, 2, layout_left> left(columns.data(), {2, 3});
  all_reduce(left, [](float a, float b) { return a + b; });
  EXPECT_EQ(rows, sums<float>(6, n));
  EXPECT_EQ(columns, sums<float>(6, n));

  const auto own = values<int>(4, rank());
  std::vector<int> all(4 * static_cast<std::size_t>(n));
  all_gather(mdspan<const int, 2>(own.data(), {2, 2}), mdspan<int, 3>(all.data(), {n, 2, 2}));
  for (int r = 0; r < n; ++r) EXPECT_EQ(all[4 * static_cast<std::size_t>(r) + 3], value<int>(r, 3));
}

WORLD_TEST(Mdspan, ElementsWithGapsAreRefusedAndNothingIsCopied) {
  auto memory = values<float>(12, rank());
  mdspan<float, 2, layout_stride> part(memory.data(), {3, 2}, {{4, 1}});
  const auto error = thrown_by<InvalidArgument>([&] { all_reduce(part); });
  EXPECT_NE(error.message().find("an mdspan of {3, 2} elements with strides of {4, 1} is not contiguous"), std::string::npos) << error.what();
  mdspan<float, 2, layout_stride> overlapping(memory.data(), {3, 2}, {{1, 1}});
  EXPECT_THROW(all_reduce(overlapping), InvalidArgument);
  mdspan<float, 1, layout_stride> backwards(memory.data() + 11, {12}, {{-1}});
  EXPECT_THROW(all_reduce(backwards), InvalidArgument);
  EXPECT_EQ(memory, values<float>(12, rank()));
}

#if defined __cpp_lib_mdspan
WORLD_TEST(Mdspan, TheOneOfTheStandardLibraryIsABuffer) {
  auto memory = values<float>(6, rank());
  all_reduce(std::mdspan(memory.data(), 2, 3));
  EXPECT_EQ(memory, sums<float>(6, world_size()));
  std::mdspan<float, std::dextents<int, 2>, std::layout_left> left(memory.data(), 2, 3);
  broadcast(left, world_size() - 1);
  EXPECT_EQ(memory, sums<float>(6, world_size()));
}
#else
TEST(Mdspan, TheOneOfTheStandardLibraryIsABuffer) {
  GTEST_SKIP() << "this compiler's standard library has no std::mdspan, or this standard of C++ none (-std=c++23)";
}
#endif

}  // namespace
