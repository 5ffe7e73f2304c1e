// Lists of tensors, one for each rank: of one shape in place, of any shapes returned.
#include "conformance_world.h"
#include "covers.h"

using namespace unisono;
using conformance::value;

namespace {

/// A tensor with another number of dimensions on each rank; rank 1's has no elements.
std::vector<std::int64_t> shape_of(int r) {
  if (r == 1) return {0, 3};
  return std::vector<std::int64_t>(static_cast<std::size_t>(r % 3), 2);
}
std::vector<torch::Tensor> of_own_shapes(torch::Dtype dtype) {
  std::vector<torch::Tensor> list;
  for (int r = 0; r < world_size(); ++r) list.push_back(value(shape_of(r), r, dtype));
  return list;
}

}  // namespace

WORLD_TEST(TorchLists, TensorsOfOneShapeMakeAList) {
  COVERS("T-32", "T-34", "T-35");
  const int n = world_size(), r = rank();
  for (const auto dtype : conformance::every_dtype) {
    SCOPED_TRACE(torch::toString(dtype));
    std::vector<torch::Tensor> list;
    for (int k = 0; k < n; ++k) list.push_back(torch::zeros({3, 2}, dtype).t());
    const torch::Tensor own = value({2, 3}, r, dtype);
    all_gather(own, list);
    for (int k = 0; k < n; ++k) EXPECT_SAME(list[static_cast<std::size_t>(k)], value({2, 3}, k, dtype));
    torch::Tensor part = torch::zeros({2, 3}, dtype);
    scatter(r == n - 1 ? list : std::vector<torch::Tensor>(), part, n - 1);
    EXPECT_SAME(part, own);
    for (auto& x : list) x.zero_();
    gather(own, list, n - 1);
    for (int k = 0; k < n; ++k) EXPECT_SAME(list[static_cast<std::size_t>(k)], r == n - 1 ? value({2, 3}, k, dtype) : torch::zeros({2, 3}, dtype));
  }
}

WORLD_TEST(TorchLists, TensorsOfAnyShapesMakeAList) {
  const int n = world_size(), r = rank();
  for (const auto dtype : conformance::every_dtype) {
    SCOPED_TRACE(torch::toString(dtype));
    const auto expected = of_own_shapes(dtype);
    const torch::Tensor own = expected[static_cast<std::size_t>(r)];
    const auto expect_list = [&](const std::vector<torch::Tensor>& list) {
      ASSERT_EQ(list.size(), expected.size());
      for (std::size_t k = 0; k < list.size(); ++k) EXPECT_SAME(list[k], expected[k]);
    };
    expect_list(all_gather_list(own));
    for (int root = 0; root < n; ++root) {
      const auto gathered = gather_list(own, root);
      ASSERT_EQ(gathered.has_value(), r == root);
      if (gathered) expect_list(*gathered);
      EXPECT_SAME(scatter_list(r == root ? expected : std::vector<torch::Tensor>(), root), own);
    }
  }
}

WORLD_TEST(TorchLists, ListsThatDoNotFitAreRefusedOnAllRanks) {
  auto list = of_own_shapes(torch::kFloat);
  list.push_back(torch::ones({1}));
  EXPECT_THROW(static_cast<void>(scatter_list(list, 0)), InvalidArgument);
  list.pop_back();
  list.back() = list.back().to(torch::kDouble);
  if (world_size() == 1) return;
  EXPECT_THROW(static_cast<void>(scatter_list(list, 0)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(all_gather_list(torch::ones({2}, rank() == 0 ? torch::kFloat : torch::kInt))), Mismatch);
  EXPECT_EQ(all_reduce(1), world_size());
}
