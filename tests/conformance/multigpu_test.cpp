// Lists of tensors: broadcast and all_gather, lists of any kind, strides, groups, and what is refused.

#include <array>
#include <span>

#include "blocks.h"
#include "covers.h"
#include "multigpu_lists.h"

using namespace unisono;
using namespace conformance;

namespace {

// The first tensor of the root, to every tensor of every rank.
WORLD_TEST(Multigpu, BroadcastFillsTheListsOfAllRanks) {
  COVERS("T-27", "W-07");
  for (int src = 0; src < world_size(); ++src) {
    for (const std::size_t len : {1UL, 2UL, 3UL}) {
      for (const std::size_t count : some_counts()) {
        List<double> list(len, count);
        const List<double> given(len, count, src);
        if (src % 2 == 0) broadcast_multigpu(list, src);
        else broadcast_multigpu_async(list, src).wait();
        for (std::size_t j = 0; j < len; ++j) ASSERT_EQ(difference(list.memory[j], given.memory[0]), "") << j << " of " << len;
      }
    }
  }
}

// A list is any range of buffers.
WORLD_TEST(Multigpu, ListsMayBeOfVectorsAndSpans) {
  COVERS("T-27", "T-29", "T-31", "T-33");
  const int n = world_size(), me = rank();
  const auto f = [](int r) { return static_cast<float>(r); };
  std::vector<std::vector<float>> vectors{{f(me), 1}, {f(me), 10}};
  all_reduce_multigpu(vectors);
  const float ranks = f(n * (n - 1));
  EXPECT_EQ(vectors, (std::vector<std::vector<float>>{{ranks, 11 * f(n)}, {ranks, 11 * f(n)}}));
  std::vector<float> memory{f(me), f(me) + 100};
  std::array<std::span<float>, 2> spans{std::span(memory).first(1), std::span(memory).last(1)};
  all_reduce_multigpu_async(spans, ReduceOp::max).wait();
  EXPECT_EQ(memory, std::vector<float>(2, f(n) + 99));
  memory = {f(me), -1};
  broadcast_multigpu(spans, n - 1);
  EXPECT_EQ(memory, std::vector<float>(2, f(n - 1)));
  memory = {f(me), 100};
  reduce_multigpu(spans, 0);
  EXPECT_EQ(memory, (std::vector<float>{me == 0 ? f(n * (n - 1) / 2 + 100 * n) : f(me), 100}));
  memory = {f(me), f(me) + 0.5F};
  std::vector<std::vector<float>> wholes(2, std::vector<float>(static_cast<std::size_t>(2 * n)));
  all_gather_multigpu(wholes, spans);
  for (int r = 0; r < n; ++r) {
    EXPECT_EQ(wholes[1][static_cast<std::size_t>(2 * r)], f(r));
    EXPECT_EQ(wholes[0][static_cast<std::size_t>(2 * r + 1)], f(r) + 0.5F);
  }
  reduce_scatter_multigpu(spans, std::as_const(wholes));
  EXPECT_EQ(memory, (std::vector<float>{2 * f(n) * f(me), 2 * f(n) * (f(me) + 0.5F)}));
}

// Block k * len + j is tensor j of rank k, told apart by its values.
WORLD_TEST(Multigpu, AllGatherFillsTheListsOfAllRanks) {
  COVERS("T-33", "K-06", "K-74");
  const auto n = static_cast<std::size_t>(world_size());
  for (const std::size_t len : {1UL, 2UL, 3UL}) {
    for (const std::size_t count : some_counts()) {
      if (count > 5000 && len > 2) continue;
      List<float> inputs(len, count), outputs(len, n * len * count, -1.0F);
      std::vector<float> expected;
      for (int k = 0; k < world_size(); ++k) {
        const List<float> theirs(len, count, k);
        for (std::size_t j = 0; j < len; ++j) expected.insert(expected.end(), theirs.memory[j].begin(), theirs.memory[j].end());
      }
      all_gather_multigpu(outputs, inputs);
      for (const auto& output : outputs.memory) ASSERT_EQ(difference(output, expected), "") << count << ", " << len;
      List<float> again(len, n * len * count, -2.0F);
      all_gather_multigpu_async(again, inputs).wait();
      ASSERT_EQ(again.memory, outputs.memory);
    }
  }
}

WORLD_TEST(Multigpu, StridedViewsAreFollowed) {
  COVERS("W-05");
  std::vector<float> a(15), b(15), c(15);
  const std::array<std::int64_t, 1> shape{5}, column{3}, backwards{-2};
  for (std::size_t i = 0; i < 15; ++i) {
    a[i] = value<float>(rank(), i);
    b[i] = 1000.0F + a[i];
    c[i] = 5000.0F + a[i];
  }
  std::vector<TensorView> list{TensorView(a.data(), DType::float32, shape, column), TensorView(b.data() + 14, DType::float32, shape, backwards),
                               TensorView(c.data(), DType::float32, 5)};
  all_reduce_multigpu(list);
  const auto n = static_cast<float>(world_size());
  const auto one = sums<float>(15, world_size());
  for (std::size_t i = 0; i < 5; ++i) {
    const float expected = one[3 * i] + (one[14 - 2 * i] + 1000.0F * n) + (one[i] + 5000.0F * n);
    ASSERT_EQ(a[3 * i], expected);
    ASSERT_EQ(b[14 - 2 * i], expected);
    ASSERT_EQ(c[i], expected);
    ASSERT_EQ(a[3 * i + 1], value<float>(rank(), 3 * i + 1));
  }
  for (std::size_t i = 0; i < 15; ++i) a[i] = value<float>(rank(), i);
  broadcast_multigpu(list, world_size() - 1);
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_EQ(a[3 * i], value<float>(world_size() - 1, 3 * i));
    ASSERT_EQ(b[14 - 2 * i], a[3 * i]);
    ASSERT_EQ(c[i], a[3 * i]);
  }
}

// In a group, and in the order of the calls with others.
WORLD_TEST(Multigpu, CallsWorkInAGroupAndInOrder) {
  COVERS("W-06");
  const auto half = split_group(world(), rank() % 2, -rank());
  List<long> list(2, 1000);
  Work first = all_reduce_multigpu_async(list, ReduceOp::max, *half);
  Work second = broadcast_async(list.memory[1], 0, *half);  // of what the first one leaves
  all_reduce_multigpu(list, ReduceOp::sum, *half);          // behind both
  first.wait();
  second.wait();
  long most = 0;
  for (int r = 0; r < half->size(); ++r) most = std::max(most, List<long>::participant(half->global_rank(r), 2, 1, 9));
  EXPECT_EQ(list.memory[0][9], most * 2 * half->size());
  EXPECT_EQ(list.memory[1], list.memory[0]);
}

// Nothing to do on all ranks is fine.
WORLD_TEST(Multigpu, EmptyListsOnAllRanksAreTaken) {
  COVERS("T-29");
  std::vector<TensorView> none;
  all_reduce_multigpu(none);
  broadcast_multigpu(none, 0);
  reduce_multigpu(none, world_size() - 1, ReduceOp::max);
  all_gather_multigpu(none, none);
  reduce_scatter_multigpu(none, none);
  all_reduce_multigpu_async(none).wait();
  EXPECT_THROW(broadcast_multigpu(none, world_size()), InvalidArgument);
  expect_usable();
}

// Each mistake is one kind of error, whatever the number of ranks, before anything is sent.
WORLD_TEST(Multigpu, ListsThatDoNotFitAreRefused) {
  COVERS("T-29", "C-11", "K-18");
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<float> a(6 * n), b(6 * n), c(6 * n), d(6 * n);
  const auto f32 = [](std::vector<float>& x, std::size_t m) { return TensorView(x.data(), DType::float32, m); };
  const auto refuses = [](std::string_view why, const std::function<void()>& call) {
    const auto error = thrown_by<InvalidArgument>(call);
    EXPECT_NE(error.message().find(why), std::string::npos) << error.what();
    EXPECT_NE(error.operation().find("_multigpu"), std::string::npos);
    EXPECT_EQ(error.group(), "world");
  };
  std::vector<TensorView> lengths{f32(a, 3), f32(b, 4)}, dtypes{f32(a, 3), TensorView(b.data(), DType::int32, 3)}, twice{f32(a, 3), f32(a, 3)};
  refuses("tensor 1 has 4 elements", [&] { all_reduce_multigpu(lengths); });
  refuses("tensor 1 is int32", [&] { broadcast_multigpu(dtypes, 0); });
  refuses("overlaps", [&] { reduce_multigpu(twice, 0); });
  std::vector<TensorView> whole{f32(a, 6 * n), f32(b, 6 * n)}, parts{f32(c, 3), f32(d, 3)}, three{f32(c, 3)}, within{f32(c, 3), f32(a, 3)};
  all_gather_multigpu(whole, parts);
  reduce_scatter_multigpu(parts, whole);
  refuses("one list has 2", [&] { all_gather_multigpu(whole, three); });
  refuses("input and output overlap", [&] { all_gather_multigpu(whole, within); });
  refuses("input and output overlap", [&] { reduce_scatter_multigpu(within, whole); });
  std::vector<TensorView> less{f32(c, 2), f32(d, 2)};
  refuses("blocks of 2", [&] { all_gather_multigpu(whole, less); });
  refuses("blocks of 2", [&] { reduce_scatter_multigpu(less, whole); });
  refuses("not defined", [&] { all_reduce_multigpu(parts, ReduceOp::bxor); });
  refuses("not in the group", [&] { reduce_multigpu(parts, world_size()); });
  const std::array<std::int64_t, 1> shape{3}, standing{0};
  std::vector<TensorView> one_place{TensorView(c.data(), DType::float32, shape, standing)};
  refuses("stride of 0", [&] { all_reduce_multigpu(one_place); });
  std::vector<TensorView> on_device{TensorView(c.data(), DType::float32, shape, {}, Device{Device::Type::cuda, 0})};
  EXPECT_THROW(all_reduce_multigpu(on_device), Unsupported);
  expect_usable();
}

// Rule 6: lists of another length (one of them empty), dtype or operation, also where what travels is the same; and other calls.
MANY_TEST(Multigpu, ListsThatDifferAreAMismatch) {
  for (int odd = 0; odd < world_size(); ++odd) {
    const bool is_odd = rank() == odd;
    List<float> list(is_odd ? 3 : 2, 10);
    const auto before_call = list.memory;
    const auto error = thrown_by<Mismatch>([&] { all_reduce_multigpu(list); });
    EXPECT_EQ(error.operation(), "all_reduce_multigpu");
    EXPECT_NE(error.message().find("2 x float32"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("3 x float32"), std::string::npos) << error.what();
    EXPECT_EQ(list.memory, before_call);
    List<float> empty_or_not(is_odd ? 0 : 2, 10);
    EXPECT_THROW(all_reduce_multigpu(empty_or_not), Mismatch);
    expect_usable();
    // Both travel as float32; both as a sum.
    List<float16> halves(2, 10, float16(1.0F));
    List<float> floats(2, 10);
    EXPECT_THROW(is_odd ? all_reduce_multigpu(halves) : all_reduce_multigpu(floats), Mismatch);
    EXPECT_THROW(all_reduce_multigpu(floats, is_odd ? ReduceOp::avg : ReduceOp::sum), Mismatch);
    if (is_odd) EXPECT_THROW(all_reduce(floats.memory[0]), Mismatch);
    else EXPECT_THROW(all_reduce_multigpu(floats), Mismatch);
    Work work = all_reduce_multigpu_async(floats, is_odd ? ReduceOp::min : ReduceOp::max);
    EXPECT_THROW(work.wait(), Mismatch);
    EXPECT_THROW(broadcast_multigpu(floats, is_odd ? 1 : 0), Mismatch);
    EXPECT_EQ(floats.memory, List<float>(2, 10).memory);
    expect_usable();
  }
}

}  // namespace
