#include "kernels/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "unisono/error.h"

namespace unisono {
namespace {

using Dims = std::vector<std::int64_t>;

struct Layout {
  const char* name;
  Dims shape;
  Dims strides;
  std::int64_t origin;  // where the element of index 0 lies
};

// Distinct strides, padding between rows, and every way in which dimensions can be merged or not.
const Layout layouts[] = {
    {"a scalar", {}, {}, 3},
    {"one element", {1, 1}, {7, -9}, 3},
    {"a line", {37}, {1}, 0},
    {"every third", {37}, {3}, 1},
    {"reversed", {37}, {-1}, 36},
    {"every second, reversed", {20}, {-2}, 39},
    {"rows with gaps", {5, 7}, {10, 1}, 2},
    {"rows without", {5, 7}, {7, 1}, 0},
    {"rows in reverse", {5, 7}, {-7, 1}, 28},
    {"transposed", {70, 130}, {1, 70}, 0},
    {"transposed and reversed", {65, 64}, {-1, 65}, 64},
    {"both reversed", {5, 7}, {-7, -1}, 34},
    {"permuted", {3, 4, 5}, {1, 3, 12}, 0},
    {"permuted otherwise", {3, 4, 5}, {5, 15, 1}, 0},
    {"four, with gaps", {2, 3, 4, 5}, {200, 50, 10, 2}, 0},
    {"four, the inner two whole", {2, 3, 4, 5}, {100, -20, 5, 1}, 40},
    {"five, with ones among them", {2, 1, 3, 1, 4}, {40, 999, -12, 77, 3}, 24},
};

std::int64_t numel(const Dims& shape) {
  std::int64_t n = 1;
  for (const auto extent : shape) n *= extent;
  return n;
}

// The place of the i-th element in row order, straight from the definition of a stride.
std::int64_t place(const Layout& layout, std::int64_t i) {
  std::int64_t at = layout.origin;
  for (std::size_t d = layout.shape.size(); d-- > 0;) {
    at += i % layout.shape[d] * layout.strides[d];
    i /= layout.shape[d];
  }
  return at;
}

std::vector<std::byte> element(std::size_t size, std::int64_t number) {
  std::vector<std::byte> out(size);
  for (std::size_t b = 0; b < size; ++b) out[b] = static_cast<std::byte>((number + 1) >> (8 * (b % 8))) ^ static_cast<std::byte>(b * 29);
  return out;
}

class Pack : public testing::TestWithParam<DType> {};

TEST_P(Pack, PackingTakesElementsInRowOrderAndPutsThemBack) {
  const std::size_t size = size_of(GetParam());
  for (const Layout& layout : layouts) {
    const std::int64_t n = numel(layout.shape);
    std::int64_t extent = 0;
    for (std::int64_t i = 0; i < n; ++i) extent = std::max(extent, place(layout, i) + 1);
    std::vector<std::byte> memory(static_cast<std::size_t>(extent) * size);
    for (std::int64_t i = 0; i < extent; ++i) std::ranges::copy(element(size, i), memory.begin() + i * static_cast<std::int64_t>(size));
    const TensorView tensor(memory.data() + static_cast<std::size_t>(layout.origin) * size, GetParam(), layout.shape, layout.strides);

    std::vector<std::byte> packed(static_cast<std::size_t>(n) * size);
    kernels::pack(packed.data(), tensor);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto* at = packed.data() + static_cast<std::size_t>(i) * size;
      ASSERT_EQ(std::vector<std::byte>(at, at + size), element(size, place(layout, i))) << layout.name << " element " << i;
    }

    std::vector<std::byte> fresh(static_cast<std::size_t>(n) * size);
    for (std::int64_t i = 0; i < n; ++i) std::ranges::copy(element(size, 100000 + i), fresh.begin() + i * static_cast<std::int64_t>(size));
    auto expected = memory;
    for (std::int64_t i = 0; i < n; ++i) {
      std::ranges::copy(element(size, 100000 + i), expected.begin() + place(layout, i) * static_cast<std::int64_t>(size));
    }
    kernels::unpack(tensor, fresh.data());
    ASSERT_EQ(memory, expected) << layout.name << ": an element between was touched, or one was not";
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Pack, testing::Values(DType::uint8, DType::bfloat16, DType::float32, DType::complex64, DType::complex128),
                         [](const auto& dtype) { return std::string(to_string(dtype.param)); });

TEST(PackZero, AStrideOfZeroRepeatsElementsButCannotWriteThem) {
  std::vector<std::int32_t> x = {11, 22, 33};
  const Dims shape = {2, 3, 2};
  const Dims strides = {0, 1, 0};
  const TensorView tensor(x.data(), DType::int32, shape, strides);
  std::vector<std::int32_t> out(12);
  kernels::pack(out.data(), tensor);
  EXPECT_EQ(out, (std::vector<std::int32_t>{11, 11, 22, 22, 33, 33, 11, 11, 22, 22, 33, 33}));
  EXPECT_THROW(kernels::unpack(tensor, out.data()), InvalidArgument);
  EXPECT_EQ(x, (std::vector<std::int32_t>{11, 22, 33}));
}

TEST(PackEmpty, PackingNothingTouchesNothing) {
  const Dims shape = {3, 0, 2};
  const Dims strides = {4, 0, 1};
  const TensorView tensor(nullptr, DType::float64, shape, strides);
  std::vector<double> out = {5.0};
  kernels::pack(out.data(), tensor);
  kernels::unpack(tensor, out.data());
  EXPECT_EQ(out, std::vector<double>{5.0});
}

TEST(PackLine, ALineOfManyElementsIsACopy) {
  std::vector<float> x(10007);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0.5F;
  std::vector<float> out(x.size());
  kernels::pack(out.data(), TensorView(x.data(), DType::float32, x.size()));
  EXPECT_EQ(out, x);
}

TEST(TensorView, CopiesHaveTheShapeAndTheStrides) {
  std::vector<float> memory(12);
  const auto dims = [](std::span<const std::int64_t> span) { return Dims(span.begin(), span.end()); };
  const TensorView line(memory.data(), DType::float32, std::size_t{12}), gaps(memory.data(), DType::float32, Dims{2, 3}, Dims{6, 2});
  const TensorView scalar(memory.data(), DType::float32, Dims{});
  for (const TensorView* from : {&line, &gaps, &scalar}) {
    const TensorView made(*from);
    for (const TensorView* before : {&line, &gaps, &scalar}) {
      TensorView assigned(*before);
      assigned = *from;
      for (const TensorView* copy : {&made, static_cast<const TensorView*>(&assigned)}) {
        EXPECT_EQ(dims(copy->shape()), dims(from->shape()));
        EXPECT_EQ(dims(copy->strides()), dims(from->strides()));
        EXPECT_EQ(copy->numel(), from->numel());
        EXPECT_EQ(copy->is_contiguous(), from->is_contiguous());
      }
    }
  }
}

}  // namespace
}  // namespace unisono
