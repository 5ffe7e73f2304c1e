// The capabilities and the names of the engines: the table that programs rely on, in groups of every kind. The expected names come from outside the
// library: from how the program was started.

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

std::string engine_of_this_run() {
  const char* asked = std::getenv("UNISONO_BACKEND");
  return asked == nullptr ? "" : asked;
}

WORLD_TEST(Capabilities, TheBackendIsTheOneThatWasAskedFor) {
  const std::string asked = engine_of_this_run();
  if (asked == "mine") return;  // the engine of docs/guide/write-a-backend.md is the example's, which has a name of its own
  if (!launched() && is_initialized() && world_size() == 1) return;  // a single thread: neither launched nor alone
  const std::string name = launched() && !asked.empty() ? asked : world_size() > 1 ? "native" : "serial";
  EXPECT_EQ(backend(), name == "serial" ? std::nullopt : std::optional(name));
  EXPECT_EQ(model_name(), name == "serial" ? "serial" : name + "-dist");
  EXPECT_EQ(world().backend(), name);
  const auto turned = split_group(world(), 0, -rank());
  EXPECT_EQ(turned->backend(), world_size() == 1 ? "serial" : name);  // a group of one rank needs no engine of the world's
  EXPECT_EQ(split_group(world(), rank())->backend(), "serial");
  const auto names = available_backends();
  for (const char* always : {"native", "serial", "tcp"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), always), 1) << always;
    EXPECT_TRUE(is_backend_available(always));
  }
  EXPECT_EQ(std::count(names.begin(), names.end(), name), 1);
  EXPECT_TRUE(is_backend_available(name));
  EXPECT_FALSE(is_backend_available("ucc"));
  if (on_an_engine()) COVERS("I-04", "I-05", "I-06", "I-46", "B-01", "B-02", "B-04", "B-09", "M-20", "T-02", "TS-14", "TS-15");
}

struct Values {
  explicit Values(const ProcessGroup& group) : n(group.size()), me(group.rank()) {}
  std::vector<int> of(int rank, std::size_t count) const {
    std::vector<int> x(count);
    for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<int>(i % 1000) * 16 + rank + 1;
    return x;
  }
  std::vector<int> sum(std::size_t count) const {
    std::vector<int> x(count);
    for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<int>(i % 1000) * 16 * n + n * (n + 1) / 2;
    return x;
  }
  std::vector<int> all(std::size_t count) const {
    std::vector<int> x;
    for (int r = 0; r < n; ++r) {
      const auto block = of(r, count);
      x.insert(x.end(), block.begin(), block.end());
    }
    return x;
  }
  int n, me;
};

void moves(const ProcessGroup& group, std::size_t count) {
  const Values values(group);
  const auto ranks = static_cast<std::size_t>(values.n), place = static_cast<std::size_t>(values.me) * count;
  const int root = values.n - 1;
  const auto own = values.of(values.me, count), everything = values.all(count);
  if (values.n > 1) {
    std::vector<int> from(count);
    const int next = (values.me + 1) % values.n, previous = (values.me + root) % values.n;
    send_recv(own, next, from, previous, group);
    ASSERT_EQ(difference(from, values.of(previous, count)), "");
  }
  auto x = own;
  broadcast(x, root, group);
  ASSERT_EQ(difference(x, values.of(root, count)), "");
  std::vector<int> all(values.me == root ? ranks * count : 0), gathered(ranks * count), back(count);
  gather(own, all, root, group);
  if (values.me == root) {
    ASSERT_EQ(difference(all, everything), "");
  }
  scatter(all, back, root, group);
  ASSERT_EQ(difference(back, own), "");
  all_gather(own, gathered, group);
  ASSERT_EQ(difference(gathered, everything), "");
  std::vector<int> exchanged(ranks * count), expected;
  all_to_all(everything, exchanged, group);
  for (std::size_t r = 0; r < ranks; ++r) {
    expected.insert(expected.end(), everything.begin() + static_cast<std::ptrdiff_t>(place),
                    everything.begin() + static_cast<std::ptrdiff_t>(place + count));
  }
  ASSERT_EQ(difference(exchanged, expected), "");
}

void combines(const ProcessGroup& group, std::size_t count) {
  const Values values(group);
  const auto ranks = static_cast<std::size_t>(values.n), place = static_cast<std::size_t>(values.me) * count;
  const int root = values.n - 1;
  const auto own = values.of(values.me, count), total = values.sum(count);
  auto x = own;
  all_reduce(x, ReduceOp::sum, group);
  ASSERT_EQ(difference(x, total), "");
  x = own;
  reduce(x, root, ReduceOp::sum, group);
  ASSERT_EQ(difference(x, values.me == root ? total : own), "");
  std::vector<int> blocks(ranks * count), part(count);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int>(i % 5000) * 3 + values.me;
  reduce_scatter(blocks, part, ReduceOp::sum, group);
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(part[i], static_cast<int>((place + i) % 5000) * 3 * values.n + values.n * (values.n - 1) / 2) << i;
  }
}

WORLD_TEST(Capabilities, EveryOperationIsOfferedOnTheCpu) {
  if (world().backend() == "tcp") COVERS("T-46", "X-01", "X-02", "X-03", "X-04", "X-05", "X-07");
  if (on_an_engine()) COVERS("Q-16", "B-17", "B-18", "B-20");
  const auto half = split_group(world(), rank() % 2, -rank());
  const auto other = new_group(world().global_ranks());
  for (const ProcessGroup& group : {world(), *half, *other}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{70003}}) {
      if (sanitized && count > 5000) continue;
      moves(group, count);
      combines(group, count);
    }
    barrier(group);
  }
}

// A call that no engine of this world can carry out is refused by name: the operation, the engine, and the device.
WORLD_TEST(Capabilities, WhatAnEngineCannotDoIsNamed) {
  if (world().backend() == "tcp") COVERS("T-46");
  std::vector<float> memory(4);
  const std::vector<std::int64_t> shape{4};
  const TensorView elsewhere(memory.data(), DType::float32, shape, {}, Device{Device::Type::cuda, 0});
  const auto refused = [&](const char* operation, const std::function<void()>& call) {
    const auto error = thrown_by<Unsupported>(call);
    EXPECT_EQ(error.operation(), operation);
    EXPECT_NE(error.message().find("memory of cuda:0 cannot be communicated"), std::string::npos) << error.what();
  };
  refused("all_reduce", [&] { all_reduce(elsewhere); });
  refused("broadcast", [&] { broadcast(elsewhere); });
  refused("reduce", [&] { reduce(elsewhere, 0); });
  if (world_size() > 1) refused("send", [&] { send(elsewhere, (rank() + 1) % world_size()); });
  expect_usable();
}

}  // namespace
