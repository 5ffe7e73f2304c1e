// at::Tensor through every collective: each dtype in each layout, alone, scalar, empty, and with what cannot be written to.
#include "conformance_world.h"

using namespace unisono;
using conformance::every_dtype;
using conformance::layouts;
using conformance::numbers;
using conformance::sum;
using conformance::value;

namespace {

const std::vector<std::int64_t> shape{2, 3};

/// `body` for each dtype and layout; the tensor of that layout holds this rank's values.
void for_each_layout(const std::vector<torch::Dtype>& dtypes, const std::function<void(torch::Tensor, torch::Dtype)>& body) {
  for (const auto dtype : dtypes) {
    for (auto& [name, x] : layouts(shape, dtype)) {
      SCOPED_TRACE(std::string(name) + " " + torch::toString(dtype));
      x.copy_(value(shape, rank(), dtype));
      body(x, dtype);
    }
  }
}
/// A row for each rank, with the values of that rank.
torch::Tensor rows(torch::Dtype dtype) {
  std::vector<torch::Tensor> all;
  for (int r = 0; r < world_size(); ++r) all.push_back(value(shape, r, dtype));
  return torch::stack(all);
}
std::vector<std::int64_t> many() { return {world_size(), 2, 3}; }

}  // namespace

WORLD_TEST(TorchCollectives, AllReduceSumsTensors) {
  const int n = world_size();
  for_each_layout(numbers, [&](const torch::Tensor& x, torch::Dtype dtype) {
    all_reduce(x);
    EXPECT_SAME(x, sum(shape, 0, n, dtype));
    for (auto& [name, out] : layouts(shape, dtype)) {
      x.copy_(value(shape, rank(), dtype));
      all_reduce(x, out);
      EXPECT_SAME(out, sum(shape, 0, n, dtype));
      EXPECT_SAME(x, value(shape, rank(), dtype));
    }
  });
  for_each_layout({torch::kInt, torch::kFloat, torch::kBFloat16, torch::kUInt64}, [&](const torch::Tensor& x, torch::Dtype dtype) {
    all_reduce(x, ReduceOp::max);
    EXPECT_SAME(x, value(shape, n - 1, dtype));
    x.copy_(value(shape, rank(), dtype));
    all_reduce(x, ReduceOp::min);
    EXPECT_SAME(x, value(shape, 0, dtype));
  });
  for_each_layout({torch::kHalf, torch::kDouble}, [&](const torch::Tensor& x, torch::Dtype dtype) {
    all_reduce(x, ReduceOp::avg);
    EXPECT_SAME(x, sum(shape, 0, n, torch::kDouble).div(n).to(dtype));
  });
  for_each_layout({torch::kBool}, [&](const torch::Tensor& x, torch::Dtype dtype) {
    torch::Tensor any = value(shape, 0, dtype), all = any.clone();
    for (int r = 1; r < n; ++r) {
      any = any.logical_or(value(shape, r, dtype));
      all = all.logical_and(value(shape, r, dtype));
    }
    torch::Tensor both = torch::zeros(shape, torch::kBool);
    all_reduce(x, both, ReduceOp::land);
    EXPECT_SAME(both, all);
    all_reduce(x, ReduceOp::lor);
    EXPECT_SAME(x, any);
  });
}

WORLD_TEST(TorchCollectives, ReduceAndScansSumTensors) {
  const int n = world_size(), r = rank();
  for_each_layout(numbers, [&](const torch::Tensor& x, torch::Dtype dtype) {
    for (int root = 0; root < n; ++root) {
      x.copy_(value(shape, r, dtype));
      reduce(x, root);
      EXPECT_SAME(x, r == root ? sum(shape, 0, n, dtype) : value(shape, r, dtype));
    }
    x.copy_(value(shape, r, dtype));
    scan(x);
    EXPECT_SAME(x, sum(shape, 0, r + 1, dtype));
    x.copy_(value(shape, r, dtype));
    exscan(x);
    EXPECT_SAME(x, r == 0 ? value(shape, 0, dtype) : sum(shape, 0, r, dtype));
  });
}

WORLD_TEST(TorchCollectives, BroadcastFillsTensors) {
  for_each_layout(every_dtype, [&](const torch::Tensor& x, torch::Dtype dtype) {
    for (int root = 0; root < world_size(); ++root) {
      x.copy_(value(shape, rank(), dtype));
      broadcast(x, root);
      EXPECT_SAME(x, value(shape, root, dtype));
    }
  });
}

WORLD_TEST(TorchCollectives, GathersAndScatterMoveTensors) {
  const int n = world_size(), r = rank();
  for_each_layout(every_dtype, [&](const torch::Tensor& x, torch::Dtype dtype) {
    const torch::Tensor expected = rows(dtype);
    for (auto& [name, out] : layouts(many(), dtype)) {
      all_gather(x, out);
      EXPECT_SAME(out, expected) << name;
    }
    for (int root = 0; root < n; ++root) {
      for (auto& [name, out] : layouts(many(), dtype)) {
        gather(x, out, root);
        EXPECT_SAME(out, r == root ? expected : torch::zeros(many(), dtype)) << name;
      }
      for (auto& [name, in] : layouts(many(), dtype)) {
        if (r == root) in.copy_(expected);
        x.zero_();
        scatter(in, x, root);
        EXPECT_SAME(x, expected[r]) << name;
      }
      x.copy_(value(shape, r, dtype));
      gather(x, r == root ? torch::zeros(many(), dtype) : torch::empty({0}, dtype), root);
      scatter(r == root ? expected : torch::empty({0}, dtype), x, root);
      EXPECT_SAME(x, expected[r]);
      x.copy_(value(shape, r, dtype));
    }
  });
}

WORLD_TEST(TorchCollectives, ReduceScatterAndAllToAllShareTensorsOut) {
  const int n = world_size(), r = rank();
  for_each_layout(numbers, [&](const torch::Tensor& x, torch::Dtype dtype) {
    // Block b of rank r: the values of r + b, of which no sum wraps in one byte.
    for (auto& [name, in] : layouts(many(), dtype)) {
      for (int b = 0; b < n; ++b) in[b].copy_(value(shape, (r + b) % n, dtype));
      x.zero_();
      reduce_scatter(in, x);
      EXPECT_SAME(x, sum(shape, 0, n, dtype)) << name;
    }
  });
  for (const auto dtype : every_dtype) {
    // Element i of block b of rank r is distinct of all.
    const auto blocks = [&](int from, int first) {
      std::vector<torch::Tensor> all;
      for (int b = 0; b < n; ++b) all.push_back(value(shape, first < 0 ? from + b * 2 : b + first * 2, dtype));
      return torch::stack(all);
    };
    for (auto& [name, in] : layouts(many(), dtype)) {
      in.copy_(blocks(r, -1));  // block b: r + 2 b
      for (auto& [to, out] : layouts(many(), dtype)) {
        all_to_all(in, out);
        EXPECT_SAME(out, blocks(0, r)) << name << " to " << to << " " << dtype;  // block b: b + 2 r
      }
    }
  }
}

WORLD_TEST(TorchCollectives, ScalarsAndEmptyTensorsAreTaken) {
  const int n = world_size(), r = rank();
  for (const auto dtype : every_dtype) {
    torch::Tensor scalar = value({1}, r, dtype).reshape({});
    torch::Tensor all = torch::zeros({n}, dtype);
    all_gather(scalar, all);
    for (int s = 0; s < n; ++s) EXPECT_SAME(all[s], value({1}, s, dtype).reshape({}));
    broadcast(scalar, n - 1);
    EXPECT_SAME(scalar, value({1}, n - 1, dtype).reshape({}));
    EXPECT_EQ(scalar.dim(), 0);
    torch::Tensor empty = torch::empty({3, 0, 2}, dtype), none = torch::empty({n, 3, 0, 2}, dtype);
    broadcast(empty, n - 1);
    all_gather(empty, none);
    all_to_all(none, torch::empty_like(none));
    scatter(none, empty, 0);
    if (dtype == torch::kBool) continue;
    all_reduce(empty);
    reduce_scatter(none, empty);
    EXPECT_EQ(empty.sizes(), torch::IntArrayRef({3, 0, 2}));
  }
}

WORLD_TEST(TorchCollectives, ExpandedTensorsAreReadAndNeverWritten) {
  const int n = world_size();
  const torch::Tensor expanded = (torch::arange(3) + 10 * rank()).expand({2, 3});
  torch::Tensor all = torch::zeros({n, 2, 3}, torch::kLong), total = torch::zeros({2, 3}, torch::kLong);
  all_gather(expanded, all);
  all_reduce(expanded, total);
  for (int s = 0; s < n; ++s) EXPECT_SAME(all[s], (torch::arange(3) + 10 * s).expand({2, 3}).contiguous());
  EXPECT_SAME(total, (torch::arange(3) * n + 5 * n * (n - 1)).expand({2, 3}).contiguous());
  EXPECT_THROW(all_reduce(expanded), InvalidArgument);
  EXPECT_THROW(broadcast(expanded, 0), InvalidArgument);
  EXPECT_THROW(all_gather(torch::ones({2}, torch::kLong), torch::zeros({1}, torch::kLong).expand({2 * n})), InvalidArgument);
  EXPECT_THROW(all_reduce(total, expanded), InvalidArgument);
  EXPECT_SAME(expanded.select(0, 1), torch::arange(3) + 10 * rank());
}

WORLD_TEST(TorchCollectives, LargeTensorsTravelInPieces) {
  const int n = world_size();
  for (const auto dtype : {torch::kFloat, torch::kLong}) {
    torch::Tensor x = (torch::arange(300 * 1001) % 1009).reshape({300, 1001}).to(dtype).add_(rank()).t();
    const torch::Tensor expected = ((torch::arange(300 * 1001) % 1009) * n + n * (n - 1) / 2).reshape({300, 1001}).to(dtype).t();
    all_reduce(x);
    EXPECT_TRUE(torch::equal(x, expected));
    torch::Tensor all = torch::zeros({n, 1001, 300}, dtype);
    all_gather(x.add_(rank()), all);
    for (int s = 0; s < n; ++s) EXPECT_TRUE(torch::equal(all[s], expected + s));
  }
}
