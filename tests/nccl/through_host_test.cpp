// Device memory beyond what NCCL offers: through the host's memory, with one word about it.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "covers.h"
#include "fake_ranks.h"
#include "unisono/cuda.h"
#include "unisono/device_runtime.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace fake;
using namespace std::chrono_literals;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The first test of this program: it is said once a process.
TEST(ThroughHost, TheWayThroughTheHostIsSaidOnce) {
  fake::reset(2);
  ::testing::internal::CaptureStderr();
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    for (int round = 0; round < 3; ++round) {
      const DeviceArray<int> x(group.rank(), {group.rank(), 10});
      all_reduce(x.view(), ReduceOp::avg, group);
      EXPECT_EQ(x.values(), (std::vector<int>{0, 10}));
      const DeviceArray<int> y(group.rank(), {1});
      auto view = y.view();
      scan(view, ReduceOp::sum, group);
    }
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(said, "goes through the host's memory"), 1U) << said;
  EXPECT_NE(said.find("all_reduce of cuda:"), std::string::npos) << said;
  EXPECT_NE(said.find("nccl does not offer avg of int32 there"), std::string::npos) << said;
  EXPECT_EQ(fake::calls("ncclAllReduce"), 0);
}

// The operations that NCCL has not, with what each rank gets and what it leaves alone.
TEST(ThroughHost, OperationsThatNcclHasNotGoThroughTheHost) {
  fake::reset(3);
  on_ranks({.count = 3}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> scanned(me, {me + 1, 10});
    auto view = scanned.view();
    scan(view, ReduceOp::sum, group);
    EXPECT_EQ(scanned.values(), (std::vector<int>{(me + 1) * (me + 2) / 2, 10 * (me + 1)}));

    const DeviceArray<int> before(me, {me + 1});
    exscan(before.view(), ReduceOp::sum, group);
    EXPECT_EQ(before.values()[0], me == 0 ? 1 : me * (me + 1) / 2);  // rank 0's stays as it is

    const DeviceArray<int> custom(me, {me + 1, 2});
    std::span<int> range(custom.data(), 2);
    all_reduce(
        range, [](int a, int b) { return a * 10 + b; }, group);
    EXPECT_EQ(custom.values(), (std::vector<int>{123, 222}));

    const DeviceArray<int> reduced(me, {4 * me, 7});
    reduce(reduced.view(), 1, ReduceOp::avg, group);
    EXPECT_EQ(reduced.values(), (me == 1 ? std::vector<int>{4, 7} : std::vector<int>{4 * me, 7}));

    const DeviceArray<int> blocks(me, {me, 10 + me, 20 + me}), block(me, 1);
    reduce_scatter(blocks.view(), block.view(), ReduceOp::avg, group);
    EXPECT_EQ(block.values()[0], 10 * me + 1);
  });
}

// A vector that the call sizes is the host's, wherever the input lies.
TEST(ThroughHost, VectorsThatTheCallSizesGoThroughTheHost) {
  fake::reset(3);
  on_ranks({.count = 3}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, count_up(me, static_cast<std::size_t>(me)));
    const std::span<int> range(x.data(), static_cast<std::size_t>(me));
    std::vector<int> all;
    EXPECT_EQ(all_gather_v(range, all, group), (std::vector<std::size_t>{0, 1, 2}));
    EXPECT_EQ(all, (std::vector<int>{100, 200, 201}));
    std::vector<int> at_root;
    gather_v(x.view(), at_root, 1, group);
    EXPECT_EQ(at_root, me == 1 ? all : std::vector<int>{});
    const DeviceArray<int> sent(me, {me, me + 10, me + 20});
    const std::vector<std::size_t> counts{1, 1, 1};
    std::vector<int> received;
    all_to_all_v(sent.view(), counts, received, group);
    EXPECT_EQ(received, (std::vector<int>{10 * me, 10 * me + 1, 10 * me + 2}));
  });
}

TEST(ThroughHost, AnyValueGoesThroughTheHost) {
  COVERS("I-34");
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {1, 2, 3, 4, 5, 6});
    std::optional<AnyValue> value;
    if (me == 1) value = AnyValue(strided(x, {3, 2}, {1, 3}, me));  // by columns
    const AnyValue got = broadcast_any(value, 1, group);
    EXPECT_EQ(got.shape()[0], 3);
    const auto elements = got.elements<int>();
    EXPECT_EQ(std::vector<int>(elements.begin(), elements.end()), (std::vector<int>{1, 4, 2, 5, 3, 6}));
  });
}

// Work that is on the stream before the call comes before it.
TEST(ThroughHost, TheHostWaitsForTheDevice) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {group.rank(), 4});
    fake::stall_devices(group);
    const auto own = device_runtime()->record({.type = Device::Type::cuda, .index = group.rank()}, nullptr);  // work that is not done
    Work work = all_reduce_async(x.view(), ReduceOp::avg, group);
    if (group.rank() == 0) {
      EXPECT_FALSE(work.wait_for(20ms));
      fake::stall(false);
    }
    EXPECT_TRUE(work.wait_for(20s));
    EXPECT_EQ(x.values(), (std::vector<int>{0, 4}));
  });
  EXPECT_EQ(fake::calls("cudaStreamWaitEvent"), 2);  // once a rank
}

TEST(ThroughHost, ADeviceThatFailsEndsTheGroup) {
  for (const char* function : {"cudaMemcpyAsync", "cudaStreamCreateWithFlags"}) {
    fake::reset(2);
    on_ranks({.count = 2}, [&](const ProcessGroup& group) {
      barrier(group);
      if (group.rank() == 0) fake::answer(function, fake::CudaError::illegal_address, {.rank = 1});
      barrier(group);
      const DeviceArray<int> x(group.rank(), {1, 2});
      const auto error = thrown_by<PeerFailed>([&] { all_reduce(x.view(), ReduceOp::avg, group); });
      EXPECT_NE(std::string(error.what()).find(function), std::string::npos) << error.what();
      EXPECT_EQ(error.culprit(), 1);
    });
  }
}

// ---- a backend that knows no devices -------------------------------------------------------------------------------------------------------

TEST(WithoutAnEngine, EverythingGoesThroughTheHost) {
  fake::reset(2);
  on_ranks({.count = 2, .engine = false}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {me, 10, 3, 10});
    all_reduce(x.view(), ReduceOp::sum, group);
    EXPECT_EQ(x.values(), (std::vector<int>{1, 20, 6, 20}));
    all_reduce(strided(x, {2}, {2}, me), ReduceOp::max, group);
    broadcast(strided(x, {2}, {2}, me, 1), 1, group);
    EXPECT_EQ(x.values(), (std::vector<int>{1, 20, 6, 20}));

    const DeviceArray<int> sent(me, {7, 0, 8}), received(me, {0, 5, 0});
    if (me == 0) send(strided(sent, {2}, {2}, me), 1, group);
    if (me == 1) {
      EXPECT_EQ(recv(strided(received, {2}, {2}, me), any_source, group), 0);
    }
    EXPECT_EQ(received.values(), (me == 0 ? std::vector<int>{0, 5, 0} : std::vector<int>{7, 5, 8}));
    if (me == 0) {  // from memory of the host as well, for both are messages of the host
      const std::vector<int> host{1, 2, 3};
      send(host, 1, group);
    } else {
      recv(received.view(), 0, group);
      EXPECT_EQ(received.values(), (std::vector<int>{1, 2, 3}));
    }

    std::map<std::string, TensorView> dictionary{{"a", x.view(0, 2)}, {"b", x.view(2, 2)}};
    all_reduce_dict(dictionary, ReduceOp::sum, group);
    fake::synchronize();  // the dictionary is unpacked on the device
    EXPECT_EQ(x.values(), (std::vector<int>{2, 40, 12, 40}));
  });
  EXPECT_EQ(fake::calls("ncclAllReduce"), 0);
}

TEST(WithoutAnEngine, CallsWaitForNoStreamWithoutWork) {
  fake::reset(2);
  on_ranks({.count = 2, .engine = false}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {group.rank(), 10});
    for (int call = 0; call < 3; ++call) all_reduce(x.view(), ReduceOp::max, group);
    EXPECT_EQ(x.values(), (std::vector<int>{1, 10}));
  });
  EXPECT_EQ(fake::calls("cudaStreamWaitEvent"), 0);
  EXPECT_EQ(fake::calls("cudaEventRecord"), 2 * 3 * 2);  // behind each copy
}

// A call that takes several pieces; its elements are no multiple of theirs.
constexpr std::size_t many = 1'000'003;

std::vector<int> numbers(int rank, std::size_t count) {
  std::vector<int> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<int>(i % 1000) + 1000 * (rank + 1);
  return x;
}
std::vector<int> part_of(const std::vector<int>& x, std::size_t begin, std::size_t count) {
  const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}
/// The sum over three ranks.
std::vector<int> sum_of(std::size_t count) {
  std::vector<int> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = 3 * static_cast<int>(i % 1000) + 6000;
  return x;
}

TEST(WithoutAnEngine, LongCallsGoThroughPinnedMemoryInPieces) {
  fake::reset(3);
  on_ranks({.count = 3, .engine = false}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const auto own = static_cast<std::size_t>(me);
    const DeviceArray<int> x(me, numbers(me, many));
    all_reduce(x.view(), ReduceOp::sum, group);
    EXPECT_EQ(x.values(), sum_of(many));
    const DeviceArray<int> shared(me, numbers(me, many));
    broadcast(shared.view(), 1, group);
    EXPECT_EQ(shared.values(), numbers(1, many));
    const DeviceArray<int> reduced(me, numbers(me, many));
    reduce(reduced.view(), 2, ReduceOp::sum, group);
    EXPECT_EQ(reduced.values(), me == 2 ? sum_of(many) : numbers(me, many));
    const DeviceArray<int> largest(me, numbers(me, many));
    auto view = largest.view();
    scan(view, ReduceOp::max, group);
    EXPECT_EQ(largest.values(), numbers(me, many));

    const DeviceArray<int> block(me, numbers(me, many)), blocks(me, 3 * many), back(me, many);
    all_gather(block.view(), blocks.view(), group);
    const std::vector<int> all = blocks.values();
    for (int r = 0; r < 3; ++r) EXPECT_EQ(part_of(all, static_cast<std::size_t>(r) * many, many), numbers(r, many)) << r;
    reduce_scatter(blocks.view(), back.view(), ReduceOp::max, group);
    EXPECT_EQ(back.values(), numbers(me, many));
    const DeviceArray<int> given(me, numbers(me, 3 * many)), taken(me, 3 * many);
    all_to_all(given.view(), taken.view(), group);
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(part_of(taken.values(), static_cast<std::size_t>(r) * many, many), part_of(numbers(r, 3 * many), own * many, many)) << r;
    }
    scatter(given.view(), back.view(), 0, group);
    EXPECT_EQ(back.values(), part_of(numbers(0, 3 * many), own * many, many));
  });
  EXPECT_EQ(fake::pageable_bytes(), 0U);
  EXPECT_GT(fake::calls("cudaMemcpyAsync"), 3 * 2 * 4);
}

TEST(WithoutAnEngine, LongCallsTakeStridedMemoryAndAFactor) {
  fake::reset(3);
  on_ranks({.count = 3, .engine = false}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> block(me, numbers(me, many)), at_root(me, me == 0 ? 3 * many : 0);
    gather(block.view(), at_root.view(), 0, group);
    if (me == 0) {
      for (int r = 0; r < 3; ++r) EXPECT_EQ(part_of(at_root.values(), static_cast<std::size_t>(r) * many, many), numbers(r, many)) << r;
    }
    const DeviceArray<int> x(me, std::vector<int>(2 * many, me + 1));
    all_reduce(strided(x, {static_cast<std::int64_t>(many)}, {2}, me), ReduceOp::sum, group);
    const std::vector<int> values = x.values();
    for (std::size_t i = 0; i < 2 * many; ++i) ASSERT_EQ(values[i], i % 2 == 0 ? 6 : me + 1) << i;
    const DeviceArray<float> scaled(me, std::vector<float>(many, static_cast<float>(me + 1)));
    all_reduce(scaled.view(), premul_sum(0.5), group);
    EXPECT_EQ(scaled.values(), std::vector<float>(many, 3.0F));
  });
}

// The first pieces of both calls are alike.
TEST(WithoutAnEngine, LongCallsOfDifferentLengthAreAMismatch) {
  fake::reset(2);
  on_ranks({.count = 2, .engine = false}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, std::vector<int>(me == 0 ? 4 * many : 5 * many, me + 1));
    thrown_by<Mismatch>([&] { all_reduce(x.view(), ReduceOp::sum, group); });
    EXPECT_EQ(x.values().back(), me + 1);
    all_reduce(x.view(0, many), ReduceOp::sum, group);
    EXPECT_EQ(x.values().front(), 3);
  });
}

}  // namespace
