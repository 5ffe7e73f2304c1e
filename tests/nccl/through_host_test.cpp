// Device memory beyond what NCCL offers: through the host's memory, with one word about it; and what is strided or lies apart, packed on its device.

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>

#include "covers.h"
#include "fake_ranks.h"
#include "unisono/cuda.h"

using namespace unisono;
using fake::DeviceArray;
using fake::on_ranks;
using fake::thrown_by;
using namespace std::chrono_literals;

namespace {

TensorView strided(const DeviceArray<int>& memory, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, int device,
               std::size_t begin = 0) {
  return {memory.data() + begin, DType::int32, shape, strides, {.type = Device::Type::cuda, .index = device}};
}

/// 100 r, 100 r + 1, …
std::vector<int> count_up(int rank, std::size_t count) {
  std::vector<int> x(count);
  std::iota(x.begin(), x.end(), 100 * rank);
  return x;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The first test of this program: it is said once a process.
TEST(ThroughHost, is_said_once) {
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
TEST(ThroughHost, operations_that_nccl_has_not) {
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
TEST(ThroughHost, vectors_that_the_call_sizes) {
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

TEST(ThroughHost, any_value) {
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

// What is on the stream before the call comes before it.
TEST(ThroughHost, waits_for_the_device) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {group.rank(), 4});
    barrier(group);
    if (group.rank() == 0) fake::stall(true);
    barrier(group);
    Work work = all_reduce_async(x.view(), ReduceOp::avg, group);
    if (group.rank() == 0) {
      EXPECT_FALSE(work.wait_for(20ms));
      fake::stall(false);
    }
    EXPECT_TRUE(work.wait_for(20s));
    EXPECT_EQ(x.values(), (std::vector<int>{0, 4}));
  });
}

TEST(ThroughHost, a_device_that_fails_ends_the_group) {
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

TEST(WithoutAnEngine, everything_goes_through_the_host) {
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

// ---- packed on the device --------------------------------------------------------------------------------------------------------------------

// What lies between the elements is nobody's; the other ranks need not have the same strides.
TEST(Packed, strided_views_of_any_form) {
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
TEST(Packed, lists) {
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

TEST(Packed, of_every_kind_of_call) {
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

    // What NCCL has not, of what is strided.
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
TEST(Packed, in_the_order_of_the_stream) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {me + 1, -1, 10, -1});
    const auto view = strided(x, {2}, {2}, me);
    barrier(group);
    if (me == 0) fake::stall(true);
    barrier(group);
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

TEST(Packed, no_memory_on_the_device_ends_the_group) {
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

// ---- parameters and dictionaries -----------------------------------------------------------------------------------------------------------

// One operation of NCCL for all that travels together.
TEST(Together, parameters_and_dictionaries) {
  COVERS("M-07", "M-14", "V-09", "V-10");
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> a(me, {me + 1, -1, 10, -1}), b(me, {5, 6, me});
    const DeviceArray<float> c(me, {1.F, static_cast<float>(me)});
    std::vector<TensorView> params{strided(a, {2}, {2}, me), b.view(), c.view()};
    all_reduce_params(params, {}, group);
    fake::synchronize();
    EXPECT_EQ(a.values(), (std::vector<int>{3, -1, 20, -1}));
    EXPECT_EQ(b.values(), (std::vector<int>{10, 12, 1}));
    EXPECT_EQ(c.values(), (std::vector<float>{2.F, 1.F}));
    barrier(group);
    EXPECT_EQ(fake::calls("ncclAllReduce"), 4);  // of each rank one for each dtype
    barrier(group);
    all_reduce_params(params, {.coalesce = false, .op = ReduceOp::max}, group);
    fake::synchronize();
    barrier(group);
    EXPECT_EQ(fake::calls("ncclAllReduce"), 10);
    EXPECT_EQ(a.values(), (std::vector<int>{3, -1, 20, -1}));

    // Beside numbers of the host, by keys, averages of integers and all.
    std::map<std::string, TensorView> means{{"b", b.view()}, {"a", strided(a, {2}, {2}, me)}};
    a.data()[0] = 4 * me;
    average_across_processes(means, group);
    fake::synchronize();
    EXPECT_EQ(a.values(), (std::vector<int>{2, -1, 20, -1}));
    int host[] = {me, 3};
    std::map<std::string, TensorView> mixed{{"device", b.view()}, {"host", TensorView(host, DType::int32, std::size_t{2})}};
    barrier(group);
    if (me == 0) fake::stall(true);
    barrier(group);
    all_reduce_dict(mixed, ReduceOp::sum, group);
    EXPECT_EQ(host[1], 6);  // it does not wait for the device
    barrier(group);
    if (me == 0) fake::stall(false);
    fake::synchronize();
    EXPECT_EQ(b.values(), (std::vector<int>{20, 24, 2}));
    const DeviceArray<int> mean(me, {3 * me, 4});
    average_across_processes(mean.view(), group);
    EXPECT_EQ(mean.values(), (std::vector<int>{1, 4}));
  });
}

TEST(Together, what_lies_elsewhere_on_another_rank_is_a_mismatch) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {1, 2});
    int host[] = {1, 2};
    std::map<std::string, TensorView> map{{"x", me == 0 ? x.view() : TensorView(host, DType::int32, std::size_t{2})}};
    const auto error = thrown_by<Mismatch>([&] { all_reduce_dict(map, ReduceOp::sum, group); });
    EXPECT_NE(std::string(error.what()).find("int32 [2] on a device"), std::string::npos) << error.what();
    EXPECT_EQ(x.values(), (std::vector<int>{1, 2}));
  });
}

// On another device than the process's, on one rank: all of them learn of it before anything is moved.
TEST(Together, another_device_is_refused_on_all_ranks) {
  fake::reset(3);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me == 1 ? 2 : 0, {1, 2});
    std::map<std::string, TensorView> map{{"x", x.view()}};
    const auto error = thrown_by<InvalidArgument>([&] { all_reduce_dict(map, ReduceOp::sum, group); });
    EXPECT_NE(std::string(error.what()).find("cuda:2"), std::string::npos) << error.what();
    map.clear();
    all_reduce_dict(map, ReduceOp::sum, group);  // the group goes on
  });
}

// ---- lists ---------------------------------------------------------------------------------------------------------------------------------

// Of tensors on two devices of each process, in averages of integers; strided; and all on one device.
TEST(Lists, what_nccl_does_not_take) {
  COVERS("T-27", "T-29", "T-31", "T-33");
  fake::reset(4);
  on_ranks({.count = 2, .devices = 4}, [](const ProcessGroup& group) {
    const int me = group.rank(), other = me + 2;
    const DeviceArray<int> a(me, {me, 1}), b(other, {me + 4, 2});
    const std::vector<TensorView> list{a.view(), b.view()};
    all_reduce_multigpu(list, ReduceOp::avg, group);
    EXPECT_EQ(a.values(), (std::vector<int>{2, 1}));  // (0 + 4 + 1 + 5) / 4, (1 + 2 + 1 + 2) / 4
    EXPECT_EQ(b.values(), a.values());

    const DeviceArray<int> c(me, {me, -1, 1, -1}), d(other, {10, 20});
    const std::vector<TensorView> apart{strided(c, {2}, {2}, me), d.view()};
    all_reduce_multigpu(apart, ReduceOp::sum, group);
    fake::synchronize();
    EXPECT_EQ(c.values(), (std::vector<int>{21, -1, 42, -1}));

    const DeviceArray<int> e(me, {me, 3}), f(me, {me + 1, 4});
    const std::vector<TensorView> together{e.view(), f.view()};
    reduce_multigpu(together, 1, ReduceOp::sum, group);
    EXPECT_EQ(e.values(), (me == 1 ? std::vector<int>{4, 14} : std::vector<int>{me, 3}));
    EXPECT_EQ(f.values(), (std::vector<int>{me + 1, 4}));
    broadcast_multigpu(together, 1, group);
    EXPECT_EQ(f.values(), (std::vector<int>{4, 14}));
    const DeviceArray<int> whole(me, 8), again(me, 8);
    e.data()[0] = me;
    const std::vector<TensorView> wholes{whole.view(), again.view()};
    all_gather_multigpu(wholes, together, group);
    EXPECT_EQ(whole.values(), (std::vector<int>{0, 14, 4, 14, 1, 14, 4, 14}));
    EXPECT_EQ(again.values(), whole.values());
    const DeviceArray<int> first(me, 2), second(me, 2);
    const std::vector<TensorView> parts{first.view(), second.view()};
    reduce_scatter_multigpu(parts, wholes, ReduceOp::sum, group);
    EXPECT_EQ(first.values(), (me == 0 ? std::vector<int>{0, 56} : std::vector<int>{4, 56}));
    EXPECT_EQ(second.values(), (std::vector<int>{16, 56}));
  });
}

// A list of one buffer for each rank, which lie apart on the device, strided or not: packed there. The others may have one buffer.
TEST(Lists, of_buffers_that_lie_apart) {
  COVERS_ON_GPU("T-32", "T-34", "T-35");
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> in(me, {me, me + 10}), first(me, {-1, -1}), second(me, {-1, -2, -3, -4}), whole(me, 4);
    std::vector<TensorView> outs{first.view(), strided(second, {2}, {2}, me)};
    if (me == 0) all_gather(in.view(), outs, group);
    else all_gather(in.view(), whole.view(), group);
    fake::synchronize();
    EXPECT_EQ(first.values(), (me == 0 ? std::vector<int>{0, 10} : std::vector<int>{-1, -1}));
    EXPECT_EQ(second.values(), (me == 0 ? std::vector<int>{1, -2, 11, -4} : std::vector<int>{-1, -2, -3, -4}));
    EXPECT_EQ(whole.values(), (me == 0 ? std::vector<int>(4) : std::vector<int>{0, 10, 1, 11}));

    Work work = gather_async(in.view(), outs, 1, group);
    EXPECT_TRUE(work.wait_for(20s));
    EXPECT_EQ(second.values(), (std::vector<int>{1, -2, 11, -4}));
    const DeviceArray<int> part(me, 2);
    second.data()[0] = 5;
    scatter(outs, part.view(), 1, group);
    fake::synchronize();
    EXPECT_EQ(part.values(), (me == 0 ? std::vector<int>{0, 10} : std::vector<int>{5, 11}));

    // Parts that are vectors of the host.
    const std::vector<std::span<int>> ranges{{first.data(), 2}, {second.data(), 1}};
    const std::vector<int> mine = scatter_list(ranges, 1, group);
    EXPECT_EQ(mine, (me == 0 ? std::vector<int>{0, 10} : std::vector<int>{5}));
  });
}

}  // namespace
