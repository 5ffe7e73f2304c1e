// Several devices in one process: collectives of lists of tensors, one on each device.

#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "fake_ranks.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace fake;
using namespace std::chrono_literals;

namespace {

class SeveralDevices : public ::testing::TestWithParam<std::pair<int, int>> {
 protected:
  void SetUp() override { fake::reset(GetParam().first * GetParam().second); }
  static std::vector<int> block(int participant, int count) {
    std::vector<int> x(static_cast<std::size_t>(count));
    std::iota(x.begin(), x.end(), 100 * (participant + 1));
    return x;
  }
  static std::vector<int> sum(int participants, int count) {
    std::vector<int> x(static_cast<std::size_t>(count));
    for (int p = 0; p < participants; ++p) {
      for (int i = 0; i < count; ++i) x[static_cast<std::size_t>(i)] += block(p, count)[static_cast<std::size_t>(i)];
    }
    return x;
  }
};

TEST_P(SeveralDevices, SeveralDevicesTakePartEachForItself) {
  const auto [ranks, len] = GetParam();
  on_ranks({.count = ranks}, [&, ranks = ranks, len = len](const ProcessGroup& group) {
    const int me = group.rank(), all = ranks * len;
    std::vector<DeviceArray<int>> memory;
    // Device j of rank k is k + j * ranks: the first is the rank's own.
    const auto make = [&](int count, bool filled) {
      std::vector<TensorView> views;
      for (int j = 0; j < len; ++j) {
        memory.emplace_back(me + j * ranks, filled ? block(me * len + j, count) : std::vector<int>(static_cast<std::size_t>(count)));
        views.push_back(memory.back().view());
      }
      return views;
    };
    const auto values = [](const TensorView& tensor) {
      const auto* data = static_cast<const int*>(tensor.data());
      return std::vector<int>(data, data + tensor.numel());
    };
    const auto settle = [&](const std::function<Work()>& start) { EXPECT_TRUE(start().wait_for(20s)); };

    auto x = make(5, true);
    settle([&] { return all_reduce_multigpu_async(x, ReduceOp::sum, group); });
    for (const TensorView& t : x) EXPECT_EQ(values(t), sum(all, 5));

    const int root = ranks - 1;
    x = make(5, true);
    settle([&] { return broadcast_multigpu_async(x, root, group); });
    for (const TensorView& t : x) EXPECT_EQ(values(t), block(root * len, 5));

    x = make(5, true);
    settle([&] { return reduce_multigpu_async(x, root, ReduceOp::sum, group); });
    for (int j = 0; j < len; ++j) {
      EXPECT_EQ(values(x[static_cast<std::size_t>(j)]), me == root && j == 0 ? sum(all, 5) : block(me * len + j, 5));
    }

    x = make(3, true);
    auto whole = make(3 * all, false);
    settle([&] { return all_gather_multigpu_async(whole, x, group); });
    for (const TensorView& t : whole) {
      for (int p = 0; p < all; ++p) {
        const auto got = values(t);
        EXPECT_EQ(std::vector<int>(got.begin() + 3 * p, got.begin() + 3 * p + 3), block(p, 3));
      }
    }

    whole = make(2 * all, true);
    x = make(2, false);
    settle([&] { return reduce_scatter_multigpu_async(x, whole, ReduceOp::sum, group); });
    for (int j = 0; j < len; ++j) {
      const auto expected = sum(all, 2 * all);
      const auto begin = expected.begin() + 2 * (me * len + j);
      EXPECT_EQ(values(x[static_cast<std::size_t>(j)]), std::vector<int>(begin, begin + 2));
    }
  });
}
INSTANTIATE_TEST_SUITE_P(RanksAndDevices, SeveralDevices, ::testing::Values(std::pair(1, 2), std::pair(2, 1), std::pair(2, 2), std::pair(3, 2)));

TEST(SeveralDevicesRefusals, ListsThatDoNotFitAreRefused) {
  fake::reset(4);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> a(me, {1, 2}), b(me + 2, {3, 4});
    std::vector<int> host(2);
    const std::vector<TensorView> mixed{a.view(), TensorView(host.data(), DType::int32, host.size())};
    thrown_by<InvalidArgument>([&] { all_reduce_multigpu(mixed, ReduceOp::sum, group); });
    // Lists of another length on one rank.
    const std::vector<TensorView> one{a.view()}, two{a.view(), b.view()};
    const auto mismatch = thrown_by<Mismatch>([&] { all_reduce_multigpu(me == 0 ? one : two, ReduceOp::sum, group); });
    EXPECT_NE(std::string(mismatch.what()).find("all_reduce_multigpu"), std::string::npos) << mismatch.what();
    all_reduce_multigpu(two, ReduceOp::sum, group);
    fake::synchronize();
    EXPECT_EQ(a.values(), (std::vector<int>{8, 12}));
  });
}

}  // namespace
