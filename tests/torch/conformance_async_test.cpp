// at::Tensor in calls that return at once, in messages, in batches, and in the calls with several tensors on each rank.
#include <set>

#include "conformance_world.h"

using namespace unisono;
using conformance::layouts;
using conformance::numbers;
using conformance::sum;
using conformance::value;

namespace {
const std::vector<std::int64_t> async_shape{2, 3};
std::vector<TensorView> views(std::vector<torch::Tensor>& tensors) {
  std::vector<TensorView> all;
  for (torch::Tensor& tensor : tensors) all.push_back(buffer_traits<torch::Tensor>::view(tensor));
  return all;
}
}  // namespace

WORLD_TEST(TorchAsync, ManyCallsRunAtOnceInEveryLayout) {
  const int n = world_size(), r = rank();
  for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kComplexDouble, torch::kByte}) {
    for (auto& [name, x] : layouts(async_shape, dtype)) {
      SCOPED_TRACE(name);
      const torch::Tensor own = value(async_shape, r, dtype);
      std::vector<torch::Tensor> in_place;
      for (int i = 0; i < 5; ++i) in_place.push_back(x.clone(torch::MemoryFormat::Preserve).copy_(own));
      x.copy_(own);
      torch::Tensor total = torch::zeros(async_shape, dtype), all = torch::zeros({n, 2, 3}, dtype), gathered = torch::zeros({n, 2, 3}, dtype);
      torch::Tensor one = torch::zeros(async_shape, dtype), part = torch::zeros(async_shape, dtype), exchanged = torch::zeros({n, 2, 3}, dtype);
      const torch::Tensor blocks = own.expand({n, 2, 3});
      std::vector<Work> works;
      works.push_back(all_reduce_async(in_place[0]));
      works.push_back(reduce_async(in_place[1], n - 1));
      works.push_back(broadcast_async(in_place[2], n - 1));
      works.push_back(scan_async(in_place[3]));
      works.push_back(exscan_async(in_place[4]));
      works.push_back(all_reduce_async(x, total));
      works.push_back(all_gather_async(x, all));
      works.push_back(gather_async(x, gathered, 0));
      works.push_back(scatter_async(blocks, one, n - 1));
      works.push_back(reduce_scatter_async(blocks, part));
      works.push_back(all_to_all_async(blocks, exchanged));
      wait_all(works);
      EXPECT_SAME(in_place[0], sum(async_shape, 0, n, dtype));
      EXPECT_SAME(in_place[1], r == n - 1 ? sum(async_shape, 0, n, dtype) : own);
      EXPECT_SAME(in_place[2], value(async_shape, n - 1, dtype));
      EXPECT_SAME(in_place[3], sum(async_shape, 0, r + 1, dtype));
      EXPECT_SAME(in_place[4], r == 0 ? own : sum(async_shape, 0, r, dtype));
      EXPECT_SAME(total, sum(async_shape, 0, n, dtype));
      EXPECT_SAME(one, value(async_shape, n - 1, dtype));
      EXPECT_SAME(part, sum(async_shape, 0, n, dtype));
      for (int s = 0; s < n; ++s) {
        EXPECT_SAME(all[s], value(async_shape, s, dtype));
        EXPECT_SAME(gathered[s], r == 0 ? value(async_shape, s, dtype) : torch::zeros(async_shape, dtype));
        EXPECT_SAME(exchanged[s], value(async_shape, s, dtype));
      }
    }
  }
}

MANY_TEST(TorchMessages, EveryDTypeIsSentInEveryLayout) {
  const int n = world_size(), r = rank();
  for (const auto dtype : conformance::every_dtype) {
    for (auto& [name, x] : layouts(async_shape, dtype)) {
      SCOPED_TRACE(name);
      x.copy_(value(async_shape, r, dtype));
      for (auto& [to, y] : layouts(async_shape, dtype)) {
        EXPECT_EQ(send_recv(x, (r + 1) % n, y, (r + n - 1) % n), (r + n - 1) % n);
        EXPECT_SAME(y, value(async_shape, (r + n - 1) % n, dtype)) << to;
      }
    }
    torch::Tensor empty = torch::empty({0, 3}, dtype), scalar = value({1}, r, dtype).reshape({}), other = torch::zeros({}, dtype);
    send_recv(empty, (r + 1) % n, torch::empty({0, 3}, dtype), (r + n - 1) % n);
    send_recv(scalar, (r + 1) % n, other, (r + n - 1) % n);
    EXPECT_SAME(other, value({1}, (r + n - 1) % n, dtype).reshape({}));
  }
}

MANY_TEST(TorchMessages, MessagesComeFromAnybodyByTagAndInBatches) {
  const int n = world_size(), r = rank();
  if (r == 0) {
    std::set<int> senders;
    for (int i = 1; i < n; ++i) {
      torch::Tensor x = torch::zeros({3, 2}).t();
      const int from = recv(x, any_source, world(), {.tag = 4});
      EXPECT_SAME(x, value(async_shape, from));
      senders.insert(from);
    }
    EXPECT_EQ(static_cast<int>(senders.size()), n - 1);
  } else {
    send(value(async_shape, r).t().contiguous().t(), 0, world(), {.tag = 4});
  }
  barrier();
  const torch::Tensor own = value({40, 3}, r).t();
  std::vector<torch::Tensor> received;
  std::vector<P2POp> operations;
  for (int s = 0; s < n; ++s) {
    received.push_back(torch::zeros({3, 40}));
    if (s == r) continue;
    operations.push_back(P2POp::send(own, s));
    operations.push_back(P2POp::recv(received.back(), s));
  }
  std::vector<Work> works = batch(operations);
  wait_all(works);
  for (int s = 0; s < n; ++s) {
    if (s == r) continue;
    EXPECT_SAME(received[static_cast<std::size_t>(s)], value({40, 3}, s).t());
  }
  torch::Tensor fixed = torch::zeros({3}).expand({2, 3});
  EXPECT_THROW(recv(fixed, (r + 1) % n), InvalidArgument);
}

WORLD_TEST(TorchMultigpu, SeveralTensorsOnEachRankAreReduced) {
  const int n = world_size(), r = rank();
  for (const auto dtype : numbers) {
    SCOPED_TRACE(torch::toString(dtype));
    std::vector<torch::Tensor> two{value({2}, 2 * r, dtype), torch::zeros({2, 2}, dtype).select(1, 1)};
    const auto fill = [&] {
      two[0].copy_(value({2}, 2 * r, dtype));
      two[1].copy_(value({2}, 2 * r + 1, dtype));
    };
    fill();
    all_reduce_multigpu(views(two));
    EXPECT_SAME(two[0], sum({2}, 0, 2 * n, dtype));
    EXPECT_SAME(two[1], sum({2}, 0, 2 * n, dtype));
    fill();
    broadcast_multigpu(views(two), n - 1);
    EXPECT_SAME(two[0], value({2}, 2 * (n - 1), dtype));
    EXPECT_SAME(two[1], value({2}, 2 * (n - 1), dtype));
    fill();
    reduce_multigpu(views(two), n - 1);
    EXPECT_SAME(two[0], r == n - 1 ? sum({2}, 0, 2 * n, dtype) : value({2}, 2 * r, dtype));
    EXPECT_SAME(two[1], value({2}, 2 * r + 1, dtype));
    fill();
    std::vector<torch::Tensor> all{torch::zeros({2 * n, 2}, dtype), torch::zeros({2, 2 * n}, dtype).t()};
    all_gather_multigpu(views(all), views(two));
    for (int s = 0; s < 2 * n; ++s) {
      EXPECT_SAME(all[0][s], value({2}, s, dtype));
      EXPECT_SAME(all[1][s], value({2}, s, dtype));
    }
    std::vector<torch::Tensor> parts{torch::zeros({2}, dtype), torch::zeros({2}, dtype)};
    reduce_scatter_multigpu(views(parts), views(all));
    EXPECT_SAME(parts[0], (value({2}, 2 * r, torch::isComplexType(dtype) ? torch::kComplexDouble : torch::kLong) * (2 * n)).to(dtype));
    EXPECT_SAME(parts[1], (value({2}, 2 * r + 1, torch::isComplexType(dtype) ? torch::kComplexDouble : torch::kLong) * (2 * n)).to(dtype));
  }
}
