// Tensors that travel together: parameters, dictionaries and lists in device memory.

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "covers.h"
#include "fake_ranks.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace fake;
using namespace std::chrono_literals;

namespace {

// ---- parameters and dictionaries -----------------------------------------------------------------------------------------------------------

// All tensors that travel together take one operation of NCCL.
TEST(Together, ParametersAndDictionariesAreReducedTogether) {
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
    fake::stall_devices(group);
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

TEST(Together, WhatLiesElsewhereOnAnotherRankIsAMismatch) {
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
TEST(Together, AnotherDeviceIsRefusedOnAllRanks) {
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

// Lists of tensors on two devices of each process, in averages of integers; strided; and all on one device.
TEST(Lists, ListsThatNcclDoesNotTakeGoThroughTheHost) {
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
TEST(Lists, BuffersThatLieApartMakeAList) {
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
