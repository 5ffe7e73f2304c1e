// at::Tensor in the collectives on blocks of different length, rank r's being of r elements, so that one has none.
#include "conformance_world.h"

using namespace unisono;
using conformance::layouts;
using conformance::sum;
using conformance::value;

namespace {

std::vector<std::size_t> triangle() {
  std::vector<std::size_t> counts;
  for (int r = 0; r < world_size(); ++r) counts.push_back(static_cast<std::size_t>(r));
  return counts;
}
std::int64_t total() { return world_size() * (world_size() - 1) / 2; }
/// The blocks of all ranks, each the first of that rank's values.
torch::Tensor all_blocks(torch::Dtype dtype) {
  std::vector<torch::Tensor> parts;
  for (int r = 0; r < world_size(); ++r) parts.push_back(value({r}, r, dtype));
  return torch::cat(parts);
}
/// A line whose elements are two apart.
torch::Tensor spread(const torch::Tensor& x) {
  torch::Tensor wide = torch::zeros({x.numel(), 2}, x.scalar_type());
  wide.select(1, 1).copy_(x);
  return wide.select(1, 1);
}

}  // namespace

WORLD_TEST(TorchBlocks, GathersAndScatterMoveBlocks) {
  const int n = world_size(), r = rank();
  const auto counts = triangle();
  for (const auto dtype : conformance::every_dtype) {
    SCOPED_TRACE(torch::toString(dtype));
    const torch::Tensor own = spread(value({r}, r, dtype)), expected = all_blocks(dtype);
    torch::Tensor out = torch::zeros({total()}, dtype), apart = spread(out);
    all_gather_v(own, out, counts);
    EXPECT_SAME(out, expected);
    all_gather_v_async(own, apart, counts).wait();
    EXPECT_SAME(apart, expected);
    for (int root = 0; root < n; ++root) {
      torch::Tensor at_root = spread(torch::zeros({total()}, dtype)), block = spread(torch::zeros({r}, dtype));
      gather_v(own, at_root, counts, root);
      EXPECT_SAME(at_root, r == root ? expected : torch::zeros({total()}, dtype));
      scatter_v(r == root ? spread(expected) : torch::empty({0}, dtype), counts, block, root);
      EXPECT_SAME(block, value({r}, r, dtype));
      block.zero_();
      gather_v_async(own, at_root.zero_(), counts, root).wait();
      scatter_v_async(expected, counts, block, root).wait();
      EXPECT_SAME(at_root, r == root ? expected : torch::zeros({total()}, dtype));
      EXPECT_SAME(block, value({r}, r, dtype));
    }
  }
}

WORLD_TEST(TorchBlocks, ReduceScatterSharesBlocksOut) {
  const int n = world_size(), r = rank();
  for (const auto dtype : conformance::numbers) {
    SCOPED_TRACE(torch::toString(dtype));
    const torch::Tensor own = spread(value({total()}, r, dtype));
    const torch::Tensor expected = sum({total()}, 0, n, dtype).slice(0, r * (r - 1) / 2, r * (r + 1) / 2).contiguous();
    torch::Tensor block = spread(torch::zeros({r}, dtype)), again = torch::zeros({r}, dtype);
    reduce_scatter_v(own, triangle(), block);
    EXPECT_SAME(block, expected);
    reduce_scatter_v_async(own, triangle(), again).wait();
    EXPECT_SAME(again, expected);
  }
}

WORLD_TEST(TorchBlocks, AllToAllExchangesBlocks) {
  const int n = world_size(), r = rank();
  for (const auto dtype : conformance::every_dtype) {
    SCOPED_TRACE(torch::toString(dtype));
    // To rank b: b elements, of which the values say who sends them; so this rank gets r from each.
    std::vector<torch::Tensor> sent, expected;
    for (int b = 0; b < n; ++b) {
      sent.push_back(value({b}, r + 4 * b, dtype));
      expected.push_back(value({r}, b + 4 * r, dtype));
    }
    const std::vector<std::size_t> from_each(static_cast<std::size_t>(n), static_cast<std::size_t>(r));
    torch::Tensor out = spread(torch::zeros({n * r}, dtype)), again = torch::zeros({n * r}, dtype);
    all_to_all_v(spread(torch::cat(sent)), triangle(), out, from_each);
    EXPECT_SAME(out, torch::cat(expected));
    all_to_all_v_async(torch::cat(sent), triangle(), again, from_each).wait();
    EXPECT_SAME(again, torch::cat(expected));
  }
}

// An output that the call sizes is a vector; the input is a tensor as ever.
WORLD_TEST(TorchBlocks, OutputsAreSizedByTheCall) {
  const int n = world_size(), r = rank();
  std::vector<float> out;
  EXPECT_EQ(all_gather_v(spread(value({r}, r)), out), triangle());
  EXPECT_SAME(torch::tensor(out), all_blocks(torch::kFloat));
  std::vector<float> at_root;
  gather_v(spread(value({r}, r)), at_root, n - 1);
  if (r == n - 1) {
    EXPECT_SAME(torch::tensor(at_root), all_blocks(torch::kFloat));
  }
}
