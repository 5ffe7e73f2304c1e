// On real devices, beside the collectives of gpu_test.cpp: messages, streams, groups, memory, views that are strided, and how a group ends.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "covers.h"
#include "engines/nccl/loader.h"
#include "engines/nccl/runtime.h"
#include "gpu_arrays.h"
#include "unisono/cuda.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace unisono::gpu;
using namespace std::chrono_literals;
namespace nccl = unisono::engines::nccl;

namespace {

TEST(Gpu, MessagesPassBetweenGpus) {
  const int n = world_size(), me = rank(), next = (me + 1) % n, before = (me + n - 1) % n;
  if (n == 1) GTEST_SKIP() << "nobody else";
  for (const std::size_t count : {1U, 1U << 18U}) {
    const Array<int> a(numbers(me, count)), b(numbers(me + 10, count)), from_a(count), from_b(count);
    Work send_a = isend(a.view(), next, world(), {.tag = 1}), send_b = isend(b.view(), next, world(), {.tag = 2});
    Work recv_b = irecv(from_b.view(), before, world(), {.tag = 2}), recv_a = irecv(from_a.view(), before, world(), {.tag = 1});
    for (Work* work : {&send_a, &send_b, &recv_a, &recv_b}) EXPECT_TRUE(work->wait_for(60s));
    EXPECT_EQ(from_a.values(), numbers(before, count));
    EXPECT_EQ(from_b.values(), numbers(before + 10, count));
  }
}

TEST(Gpu, StreamsAndWorksAreInOrder) {
  nccl::Stream stream = nullptr;
  const nccl::OnDevice on_device(*nccl::vendor(), device().index);
  require(static_cast<int>(nccl::vendor()->cuda.stream_create(&stream, nccl::stream_non_blocking)));
  {
    const CurrentStream current(stream);
    constexpr std::size_t count = 1U << 22U;
    const Array<int> source(numbers(rank(), count)), x(count), copy(count);
    const auto put = [&](const DeviceBytes& to, const DeviceBytes& from) {
      require(static_cast<int>(nccl::vendor()->cuda.memcpy_async(to.data(), from.data(), count * sizeof(int), nccl::MemcpyKind::automatic, stream)));
    };
    put(x, source);
    Work work = all_reduce_async(x.view());
    work.wait();
    put(copy, x);  // behind it
    EXPECT_EQ(copy.values(), sums(world_size(), count));
    EXPECT_TRUE(work.wait_for(60s));
    EXPECT_TRUE(work.is_completed());
    // Others go on beside it.
    std::vector<Work> works;
    std::vector<std::unique_ptr<Array<int>>> arrays;
    for (int i = 0; i < 20; ++i) {
      arrays.push_back(std::make_unique<Array<int>>(numbers(rank(), 1000)));
      works.push_back(all_reduce_async(arrays.back()->view()));
    }
    wait_all(works);
    for (const auto& array : arrays) EXPECT_EQ(array->values(), sums(world_size(), 1000));
  }
  require(static_cast<int>(nccl::vendor()->cuda.stream_destroy(stream)));
}

TEST(Gpu, GroupsWorkOnGpus) {
  COVERS_ON_GPU("K-14");
  const int n = world_size(), me = rank();
  const auto half = split_group(world(), me % 2);
  ASSERT_TRUE(half);
  const Array<int> x(numbers(me, 100));
  all_reduce(x.view(), ReduceOp::sum, *half);
  std::vector<int> expected(100);
  for (int r = me % 2; r < n; r += 2) {
    for (std::size_t i = 0; i < 100; ++i) expected[i] += numbers(r, 100)[i];
  }
  EXPECT_EQ(x.values(), expected);
  std::vector<int> host{me};
  all_reduce(host, ReduceOp::max);
  EXPECT_EQ(host[0], n - 1);
}

TEST(Gpu, AnAddressHasADeviceAndMemoryInUse) {
  COVERS_ON_GPU("I-03", "B-03", "C-25", "V-11", "K-56");
  EXPECT_EQ(device().type, Device::Type::cuda);
  EXPECT_EQ(backend(), "nccl");
  const Array<int> x(numbers(rank(), 1U << 22U));
  all_reduce(std::span<int>(static_cast<int*>(x.data()), 1U << 22U));
  EXPECT_EQ(x.values(), sums(world_size(), 1U << 22U));
  EXPECT_GE(gpu_mem_usage(), 16U);
  EXPECT_GE(gpu_mem_peak(), gpu_mem_usage());
  const auto memory = device_runtime()->memory(device());
  if (memory.own) {
    EXPECT_EQ(gpu_mem_usage(), *memory.own >> 20U);
    EXPECT_LE(*memory.own, memory.used);
  }
}

// Each process with two tensors: on two devices, or on one where ranks may share it.
TEST(Gpu, ListsOfTensorsAreReduced) {
  const auto vendor = nccl::vendor();
  const int n = world_size(), me = rank();
  if (vendor->devices < 2 * n && !vendor->settings.shared_devices) GTEST_SKIP() << "missing on this machine: " << 2 * n << " devices";
  const int other = vendor->devices >= 2 * n ? me + n : device().index;
  const Array<int> a(numbers(2 * me, 100)), b(numbers(2 * me + 1, 100), other);
  const std::vector<TensorView> list{a.view(), b.view()};
  all_reduce_multigpu(list);
  EXPECT_EQ(a.values(), sums(2 * n, 100));
  require(static_cast<int>(vendor->cuda.set_device(other)));
  EXPECT_EQ(b.values(), sums(2 * n, 100));
}

TensorView every_other(const Array<int>& x, std::int64_t count) {
  const std::int64_t shape[] = {count}, strides[] = {2};
  return {x.data(), DType::int32, shape, strides, device()};
}

// Operations that NCCL has not go through the host.
TEST(Gpu, CallsGoThroughTheHostWhereTheyMust) {
  const int n = world_size(), me = rank();
  const Array<int> x(numbers(me, 1000)), y(std::vector<int>{3 * me, 4}), z(numbers(me, 8));
  all_reduce(y.view(), ReduceOp::avg);
  EXPECT_EQ(y.values(), (std::vector<int>{3 * (n - 1) / 2, 4}));
  auto view = x.view();
  scan(view);
  EXPECT_EQ(x.values(), sums(me + 1, 1000));
  std::span<int> range(static_cast<int*>(y.data()), 1);
  all_reduce(range, [](int a, int b) { return std::max(a, b); });
  EXPECT_EQ(y.values()[0], 3 * (n - 1) / 2);
  std::vector<int> sized;
  all_gather_v(z.view(), sized);
  EXPECT_EQ(sized, in_turn(n, [](int) { return std::size_t{8}; }));
  const AnyValue value = broadcast_any(AnyValue(every_other(z, 4)), n - 1);
  const auto elements = value.elements<int>();
  const auto last = numbers(n - 1, 8);
  EXPECT_EQ(std::vector<int>(elements.begin(), elements.end()), (std::vector<int>{last[0], last[2], last[4], last[6]}));
}

// Views that are strided, or of several pieces, are packed on the device.
TEST(Gpu, ViewsArePackedOnTheDevice) {
  const int n = world_size(), me = rank();
  const Array<int> x(numbers(me, 2000)), y(numbers(me, 1000));
  all_reduce(every_other(x, 1000));
  auto expected = numbers(me, 2000);
  const auto all = sums(n, 2000);
  for (std::size_t i = 0; i < expected.size(); i += 2) expected[i] = all[i];
  EXPECT_EQ(x.values(), expected);
  std::vector<TensorView> params{every_other(x, 1000), y.view()};
  all_reduce_params(params, {.op = ReduceOp::max});
  EXPECT_EQ(x.values(), expected);
  EXPECT_EQ(y.values(), numbers(n - 1, 1000));
  std::map<std::string, TensorView> means{{"x", every_other(x, 1000)}, {"y", y.view()}};
  average_across_processes(means);
  EXPECT_EQ(x.values(), expected);
  if (n == 1) return;
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  const Array<int> sent(numbers(me, 200)), received(std::vector<int>(100));
  Work work = isend(every_other(sent, 100), next);
  recv(received.view(), before);
  EXPECT_TRUE(work.wait_for(60s));
  const auto theirs = numbers(before, 200);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(received.values()[i], theirs[2 * i]);
}

TEST(Gpu, RefusalsAndMismatchesLeaveTheGroupUsable) {
  const int n = world_size(), me = rank();
  const Array<int> x(numbers(me, 100));
  auto view = x.view();
  std::vector<int> host(100);
  EXPECT_THROW(all_reduce(view, host), InvalidArgument);
  if (n > 1) {
    EXPECT_THROW(all_reduce(x.part(0, me == 0 ? 100 : 99)), Mismatch);
  }
  all_reduce(x.view());
  EXPECT_EQ(x.values(), sums(n, 100));
}

// Whether a call may be a part of a graph: it is refused by name, and neither the capture nor the group is broken.
TEST(Gpu, CallsOnAStreamThatIsCapturedAreUnsupported) {
  using Begin = int (*)(nccl::Stream, int);
  using End = int (*)(nccl::Stream, void**);
  const auto begin = reinterpret_cast<Begin>(runtime().symbol("cudaStreamBeginCapture"));
  const auto end = reinterpret_cast<End>(runtime().symbol("cudaStreamEndCapture"));
  if (begin == nullptr || end == nullptr) GTEST_SKIP() << "a runtime with graphs is missing: this is the stand-in";
  const Array<int> x(numbers(rank(), 100));
  nccl::Stream stream = nullptr;
  const nccl::OnDevice on_device(*nccl::vendor(), device().index);
  require(static_cast<int>(nccl::vendor()->cuda.stream_create(&stream, nccl::stream_non_blocking)));
  constexpr int thread_local_capture = 1;
  require(begin(stream, thread_local_capture));
  {
    const CurrentStream current(stream);
    EXPECT_THROW(all_reduce(x.view()), Unsupported);
    EXPECT_THROW(static_cast<void>(all_reduce_async(x.view())), Unsupported);
  }
  void* graph = nullptr;
  require(end(stream, &graph));  // fails where a call has broken the capture
  require(static_cast<int>(nccl::vendor()->cuda.stream_destroy(stream)));
  all_reduce(x.view());
  EXPECT_EQ(x.values(), sums(world_size(), 100));
}

// A rank that comes late is waited for, and the deadline of a call names it.
TEST(GpuY, ARankThatComesLateIsWaitedForAndOneThatStaysAwayIsNamed) {
  if (world_size() == 1) GTEST_SKIP() << "nobody else";
  const Array<int> x(numbers(rank(), 1000));
  if (rank() == 1) {
    std::vector<int> word(1);
    recv(word, 0);  // rank 0 is in its call soon after
  } else if (rank() == 0) {
    send(std::vector<int>{1}, 1);
  }
  all_reduce(x.view());
  EXPECT_EQ(x.values(), sums(world_size(), 1000));
  if (const auto others = new_group(GroupOptions{}); rank() != 0) {
    try {
      all_reduce(x.view(), ReduceOp::sum, others, {.timeout = 2s});
      ADD_FAILURE() << "rank 0 was not there";
    } catch (const Timeout& error) {
      EXPECT_EQ(error.missing(), std::vector<int>{0}) << error.what();
    } catch (const PeerFailed&) {  // another rank's deadline has passed first
    }
  }
  barrier();  // the world goes on
}

// The last one: the world is over afterwards.
TEST(GpuZ, AbortEndsWhatIsUnderWay) {
  if (world_size() == 1) GTEST_SKIP() << "nobody else";
  const Array<int> x(numbers(rank(), 1U << 20U));
  if (rank() == 0) {
    Work work = all_reduce_async(x.view());
    work.wait_for(60s);
    world().abort("enough");
  }
  EXPECT_THROW(
      {
        for (;;) all_reduce(x.view());
      },
      PeerFailed);
}

}  // namespace
