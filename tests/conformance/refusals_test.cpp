// What is refused before anything is sent, and what is so close to it that it might be.
#include <vector>

#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

using Dimensions = std::vector<std::int64_t>;

Tensor floats(std::vector<float>& memory, std::size_t offset, const Dimensions& shape, const Dimensions& strides = {}) {
  return {memory.data() + offset, DType::float32, shape, strides};
}

WORLD_TEST(Refusals, AnotherViewOfTheSameMemoryIsNotInPlace) {
  const auto before = values<float>(24, rank());
  auto x = before;
  const auto refused = [&](const Tensor& in, const Tensor& out) {
    const auto error = thrown_by<InvalidArgument>([&] { all_reduce(in, out); });
    EXPECT_NE(error.message().find("overlap"), std::string::npos) << error.message();
    EXPECT_EQ(difference(x, before), "");
  };
  refused(floats(x, 0, {3, 3}, {3, 1}), floats(x, 0, {3, 3}, {1, 3}));  // transposed
  refused(floats(x, 0, {2, 3}, {4, 1}), floats(x, 0, {3, 2}, {4, 1}));
  refused(floats(x, 0, {6}, {2}), floats(x, 0, {6}, {3}));
  all_reduce(floats(x, 0, {2, 3}, {4, 1}), floats(x, 0, {2, 3}, {4, 1}));
  const auto expected = sums<float>(24, world_size());
  EXPECT_EQ(x[6], expected[6]);
  EXPECT_EQ(x[3], before[3]);  // between its rows
}

// In the block forms only a contiguous block of a contiguous whole may lie in it.
WORLD_TEST(Refusals, AStridedBlockOfTheWholeIsNotItsOwn) {
  const auto n = static_cast<std::size_t>(world_size());
  const auto own = 2 * static_cast<std::size_t>(rank());
  std::vector<float> x(4 * n + 4);
  const auto whole = static_cast<std::int64_t>(2 * n);
  EXPECT_THROW(all_gather(floats(x, own, {2}, {2}), floats(x, 0, {whole})), InvalidArgument);
  EXPECT_THROW(all_gather(floats(x, own, {2}), floats(x, 0, {whole}, {2})), InvalidArgument);
  EXPECT_THROW(reduce_scatter(floats(x, 0, {whole}), floats(x, own, {2}, {2})), InvalidArgument);
  EXPECT_THROW(reduce_scatter(floats(x, 0, {whole}, {2}), floats(x, own, {2})), InvalidArgument);
  for (std::size_t i = 0; i < 2; ++i) x[own + i] = value<float>(rank(), i);
  all_gather(floats(x, own, {2}), floats(x, 0, {whole}));
  for (std::size_t r = 0; r < n; ++r) EXPECT_EQ(x[2 * r + 1], value<float>(static_cast<int>(r), 1));
}

// A stride of nothing is one of a dimension of several.
WORLD_TEST(Refusals, AnOutputWhoseElementsAreOne) {
  auto x = values<float>(8, rank());
  std::vector<float> in(3, 1.0F);
  const auto refused = [&](const Tensor& out) {
    const auto error = thrown_by<InvalidArgument>([&] { all_reduce(floats(in, 0, {3}), out); });
    EXPECT_NE(error.message().find("stride of 0"), std::string::npos) << error.message();
  };
  refused(floats(x, 0, {3}, {0}));
  refused(floats(x, 0, {3, 1}, {0, 2}));
  all_reduce(floats(in, 0, {3}), floats(x, 0, {1, 3}, {0, 2}));
  EXPECT_EQ(x[4], static_cast<float>(world_size()));
  EXPECT_EQ(x[3], value<float>(rank(), 3));
  // Of an input it is a repeated element.
  all_reduce(floats(in, 0, {3}, {0}), floats(x, 0, {3}));
  EXPECT_EQ(x[2], static_cast<float>(world_size()));
}

WORLD_TEST(Refusals, AMessageIntoElementsThatAreOne) {
  std::vector<float> x(4);
  EXPECT_THROW(recv(floats(x, 0, {3}, {0}), any_source), InvalidArgument);
  const int next = (rank() + 1) % world_size(), previous = (rank() + world_size() - 1) % world_size();
  if (world_size() == 1) {
    const auto error = thrown_by<InvalidArgument>([&] { recv(x, any_source); });
    EXPECT_NE(error.message().find("nobody else"), std::string::npos) << error.message();
    return;
  }
  std::vector<float> repeated{value<float>(rank(), 0)};
  Work sent = isend(floats(repeated, 0, {3}, {0}), next);
  recv(floats(x, 0, {3}), previous);
  sent.wait();
  EXPECT_EQ(x, (std::vector<float>{value<float>(previous, 0), value<float>(previous, 0), value<float>(previous, 0), 0}));
}

WORLD_TEST(Refusals, LengthsOfBlocks) {
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<float> block(3), shorter(3 * n - 1), whole(3 * n), longer(3 * n + 1);
  for (auto* wrong : {&shorter, &longer}) {
    EXPECT_THROW(all_gather(block, *wrong), InvalidArgument);
    EXPECT_THROW(gather(block, *wrong, rank()), InvalidArgument);
    EXPECT_THROW(scatter(*wrong, block, rank()), InvalidArgument);
    EXPECT_THROW(reduce_scatter(*wrong, block), InvalidArgument);
    EXPECT_THROW(all_to_all(whole, *wrong), InvalidArgument);
    if (n > 1) {
      EXPECT_THROW(all_to_all(*wrong, *wrong), InvalidArgument);
    }
  }
  expect_usable();
}

}  // namespace
