// Device memory that is strided or lies apart, packed on its device.

#include <memory>
#include <string>
#include <vector>

#include "fake_ranks.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace fake;
using namespace std::chrono_literals;

namespace {

// The memory between the elements is nobody's; the other ranks need not have the same strides.
TEST(Packed, StridedViewsOfAnyFormArePacked) {
  fake::reset(2);
  struct Form {
    std::vector<std::int64_t> shape, strides;
    std::size_t begin;
  };
  const std::vector<Form> forms{{{6}, {2}, 0},
                                {{6}, {-2}, 11},
                                {{3, 2}, {4, 1}, 1},
                                {{2, 3}, {1, 4}, 0},
                                {{2, 1, 3}, {1, 9, 4}, 0},
                                {{2, 3}, {6, 1}, 0},
                                {{1, 2, 3}, {0, -6, 2}, 6},
                                {{2, 3, 1}, {-1, 3, 5}, 1}};
  on_ranks({.count = 2}, [&](const ProcessGroup& group) {
    const int me = group.rank();
    for (const Form& form : forms) {
      const DeviceArray<int> x(me, count_up(me, 12)), line(me, count_up(me, 6));
      TensorView view = me == 0 ? strided(x, form.shape, form.strides, me, form.begin) : line.view();
      all_reduce(view, ReduceOp::sum, group);
      fake::synchronize();
      std::vector<int> expected = count_up(0, 12), other = count_up(1, 6);
      std::size_t next = 0;
      const auto extent = [&](std::size_t d) { return d < form.shape.size() ? form.shape[d] : 1; };
      const auto stride = [&](std::size_t d) { return d < form.strides.size() ? form.strides[d] : 0; };
      for (std::int64_t i = 0; i < extent(0); ++i) {
        for (std::int64_t j = 0; j < extent(1); ++j) {
          for (std::int64_t k = 0; k < extent(2); ++k, ++next) {
            const auto at = static_cast<std::size_t>(static_cast<std::int64_t>(form.begin) + i * stride(0) + j * stride(1) + k * stride(2));
            expected[at] += count_up(1, 6)[next];
            other[next] += count_up(0, 12)[at];
          }
        }
      }
      EXPECT_EQ(me == 0 ? x.values() : line.values(), me == 0 ? expected : other) << ::testing::PrintToString(form.strides);
    }
  });
  EXPECT_EQ(fake::calls("ncclAllReduce"), 2 * static_cast<int>(forms.size()));
}

// Buffers that lie apart are one on their device; a group without an engine for it has them as well.
TEST(Packed, ListsArePacked) {
  for (const bool engine : {true, false}) {
    fake::reset(3);
    on_ranks({.count = 3, .engine = engine}, [](const ProcessGroup& group) {
      const int me = group.rank(), n = group.size();
      const DeviceArray<int> own(me, count_up(me, 5));
      std::vector<std::unique_ptr<DeviceArray<int>>> memory;
      std::vector<TensorView> list;
      for (int r = 0; r < n; ++r) {
        memory.push_back(std::make_unique<DeviceArray<int>>(me, 10));
        list.push_back(strided(*memory.back(), {5}, {2}, me));  // every second element
      }
      const auto expect_gathered = [&](bool is_gathered) {
        fake::synchronize();
        for (int r = 0; r < n; ++r) {
          std::vector<int> expected(10);
          for (std::size_t i = 0; i < 5 && is_gathered; ++i) expected[2 * i] = count_up(r, 5)[i];
          EXPECT_EQ(memory[static_cast<std::size_t>(r)]->values(), expected);
        }
      };
      gather(own.view(), list, 1, group);
      expect_gathered(me == 1);
      all_gather(own.view(), list, group);
      expect_gathered(true);
      const DeviceArray<int> part(me, 5);
      if (me == 2) scatter(list, part.view(), 2, group);
      else scatter(std::vector<TensorView>(), part.view(), 2, group);
      fake::synchronize();
      EXPECT_EQ(part.values(), count_up(me, 5));
    });
    EXPECT_EQ(fake::calls("ncclAllGather"), engine ? 3 : 0);
  }
}

TEST(Packed, ViewsOfEveryKindOfCallArePacked) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const auto odd = [&](const DeviceArray<int>& x, std::int64_t count) { return strided(x, {count}, {2}, me); };
    const DeviceArray<int> x(me, {me, -1, me + 5, -1});
    broadcast(odd(x, 2), 1, group);
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{1, -1, 6, -1}));

    const DeviceArray<int> part(me, {me, -1, me + 5, -1}), whole(me, {-1, -2, -3, -4, -5, -6, -7, -8});
    all_gather(odd(part, 2), odd(whole, 4), group);
    fake::synchronize();
    EXPECT_EQ(whole.values(), (std::vector<int>{0, -2, 5, -4, 1, -6, 6, -8}));

    // A rank that gets no result finds there what was there.
    const DeviceArray<int> reduced(me, {me + 1, -1, 5, -1});
    reduce(odd(reduced, 2), 0, ReduceOp::sum, group);
    fake::synchronize();
    EXPECT_EQ(reduced.values(), (me == 0 ? std::vector<int>{3, -1, 10, -1} : std::vector<int>{me + 1, -1, 5, -1}));

    // An operation that NCCL has not, of a strided view.
    const DeviceArray<int> mean(me, {3 * me, -1, 10, -1});
    all_reduce(odd(mean, 2), ReduceOp::avg, group);
    EXPECT_EQ(mean.values(), (std::vector<int>{1, -1, 10, -1}));

    // Messages, to memory that is laid out otherwise.
    const DeviceArray<int> message(me, {7, -1, 8, -1}), arrived(me, {-1, -1});
    if (me == 0) {
      send(odd(message, 2), 1, group);
      recv(odd(message, 2), 1, group);
    } else {
      recv(arrived.view(), 0, group);
      send(arrived.view(), 0, group);
    }
    fake::synchronize();
    EXPECT_EQ(arrived.values(), (me == 1 ? std::vector<int>{7, 8} : std::vector<int>{-1, -1}));
    EXPECT_EQ(message.values(), (std::vector<int>{7, -1, 8, -1}));
  });
}

// In the order of the calls and of the caller's stream, and nobody waits for the device.
TEST(Packed, ViewsArePackedInTheOrderOfTheStream) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {me + 1, -1, 10, -1});
    const auto view = strided(x, {2}, {2}, me);
    fake::stall_devices(group);
    Work first = all_reduce_async(view, ReduceOp::sum, group);
    Work second = all_reduce_async(view, ReduceOp::sum, group);
    second.wait();
    EXPECT_FALSE(second.is_completed());
    EXPECT_EQ(x.values(), (std::vector<int>{me + 1, -1, 10, -1}));
    barrier(group);
    if (me == 0) fake::stall(false);
    EXPECT_TRUE(second.wait_for(20s));
    EXPECT_TRUE(first.wait_for(20s));
    EXPECT_EQ(x.values(), (std::vector<int>{6, -1, 40, -1}));
  });
}

TEST(Packed, NoMemoryOnTheDeviceEndsTheGroup) {
  fake::reset(2);
  fake::answer("cudaMallocAsync", fake::CudaError::memory_allocation, {.rank = 1});
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {1, 2, 3, 4});
    const auto error = thrown_by<PeerFailed>([&] {
      for (;;) all_reduce(strided(x, {2}, {2}, me), ReduceOp::sum, group);
    });
    EXPECT_NE(std::string(error.what()).find("cudaMallocAsync"), std::string::npos) << error.what();
    EXPECT_EQ(error.culprit(), 1);
  });
}

}  // namespace
