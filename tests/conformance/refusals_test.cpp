// Calls that are refused before anything is sent, and calls that are close to them and allowed.
#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "engines/message.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

using Dimensions = std::vector<std::int64_t>;

TensorView floats(std::vector<float>& memory, std::size_t offset, const Dimensions& shape, const Dimensions& strides = {}) {
  return {memory.data() + offset, DType::float32, shape, strides};
}

WORLD_TEST(Refusals, OneBufferForBothSidesOfAllToAllIsNotCalledAnOverlapInPart) {
  if (world_size() == 1) return;  // there it is in place
  auto x = values<float>(static_cast<std::size_t>(world_size()), rank());
  const auto error = thrown_by<InvalidArgument>([&] { all_to_all(x, x); });
  EXPECT_EQ(error.message(), "input and output are one buffer");
  EXPECT_EQ(error.hint(), "give another one for the output");
}

WORLD_TEST(Refusals, AnotherViewOfTheSameMemoryIsNotInPlace) {
  const auto before = values<float>(24, rank());
  auto x = before;
  const auto refused = [&](const TensorView& in, const TensorView& out) {
    const auto error = thrown_by<InvalidArgument>([&] { all_reduce(in, out); });
    EXPECT_NE(error.message().find("overlap"), std::string::npos) << error.message();
    EXPECT_EQ(difference(x, before), "");
  };
  refused(floats(x, 0, {3, 3}, {3, 1}), floats(x, 0, {3, 3}, {1, 3}));  // transposed
  refused(floats(x, 0, {2, 3}, {4, 1}), floats(x, 0, {3, 2}, {4, 1}));
  refused(floats(x, 0, {6}, {2}), floats(x, 0, {6}, {3}));
  all_reduce(floats(x, 0, {2, 3}, {4, 1}), floats(x, 0, {2, 3}, {4, 1}));
  const auto expected = sums<float>(24, world_size());
  EXPECT_EQ(x[6], expected[6]);
  EXPECT_EQ(x[3], before[3]);  // between its rows
}

WORLD_TEST(Refusals, ContiguousViewsOfOneMemoryAreInPlaceWhateverTheirShapes) {
  auto x = values<float>(6, rank());
  all_reduce(floats(x, 0, {2, 3}), floats(x, 0, {3, 2}));
  EXPECT_EQ(difference(x, sums<float>(6, world_size())), "");
}

// In the block forms only a contiguous block of a contiguous whole may lie in it.
WORLD_TEST(Refusals, AStridedBlockOfTheWholeIsNotItsOwn) {
  const auto n = static_cast<std::size_t>(world_size());
  const auto own = 2 * static_cast<std::size_t>(rank());
  std::vector<float> x(4 * n + 4);
  const auto whole = static_cast<std::int64_t>(2 * n);
  EXPECT_THROW(all_gather(floats(x, own, {2}, {2}), floats(x, 0, {whole})), InvalidArgument);
  EXPECT_THROW(all_gather(floats(x, own, {2}), floats(x, 0, {whole}, {2})), InvalidArgument);
  EXPECT_THROW(reduce_scatter(floats(x, 0, {whole}), floats(x, own, {2}, {2})), InvalidArgument);
  EXPECT_THROW(reduce_scatter(floats(x, 0, {whole}, {2}), floats(x, own, {2})), InvalidArgument);
  for (std::size_t i = 0; i < 2; ++i) x[own + i] = value<float>(rank(), i);
  all_gather(floats(x, own, {2}), floats(x, 0, {whole}));
  for (std::size_t r = 0; r < n; ++r) EXPECT_EQ(x[2 * r + 1], value<float>(static_cast<int>(r), 1));
}

// A stride of nothing is one of a dimension of several.
WORLD_TEST(Refusals, AnOutputWhoseElementsAreOne) {
  auto x = values<float>(8, rank());
  std::vector<float> in(3, 1.0F);
  const auto refused = [&](const TensorView& out) {
    const auto error = thrown_by<InvalidArgument>([&] { all_reduce(floats(in, 0, {3}), out); });
    EXPECT_NE(error.message().find("stride of 0"), std::string::npos) << error.message();
  };
  refused(floats(x, 0, {3}, {0}));
  refused(floats(x, 0, {3, 1}, {0, 2}));
  all_reduce(floats(in, 0, {3}), floats(x, 0, {1, 3}, {0, 2}));
  EXPECT_EQ(x[4], static_cast<float>(world_size()));
  EXPECT_EQ(x[3], value<float>(rank(), 3));
  // An input may repeat an element.
  all_reduce(floats(in, 0, {3}, {0}), floats(x, 0, {3}));
  EXPECT_EQ(x[2], static_cast<float>(world_size()));
}

WORLD_TEST(Refusals, AMessageIntoElementsThatAreOne) {
  std::vector<float> x(4);
  EXPECT_THROW(recv(floats(x, 0, {3}, {0}), any_source), InvalidArgument);
  const int next = (rank() + 1) % world_size(), previous = (rank() + world_size() - 1) % world_size();
  if (world_size() == 1) {
    const auto error = thrown_by<InvalidArgument>([&] { recv(x, any_source); });
    EXPECT_NE(error.message().find("nobody else"), std::string::npos) << error.message();
    return;
  }
  std::vector<float> repeated{value<float>(rank(), 0)};
  Work sent = isend(floats(repeated, 0, {3}, {0}), next);
  recv(floats(x, 0, {3}), previous);
  sent.wait();
  EXPECT_EQ(x, (std::vector<float>{value<float>(previous, 0), value<float>(previous, 0), value<float>(previous, 0), 0}));
}

WORLD_TEST(Refusals, LengthsOfBlocksThatDoNotFitAreRefused) {
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<float> block(3), shorter(3 * n - 1), whole(3 * n), longer(3 * n + 1);
  for (auto* wrong : {&shorter, &longer}) {
    EXPECT_THROW(all_gather(block, *wrong), InvalidArgument);
    EXPECT_THROW(gather(block, *wrong, rank()), InvalidArgument);
    EXPECT_THROW(scatter(*wrong, block, rank()), InvalidArgument);
    EXPECT_THROW(reduce_scatter(*wrong, block), InvalidArgument);
    EXPECT_THROW(all_to_all(whole, *wrong), InvalidArgument);
    if (n > 1) {
      EXPECT_THROW(all_to_all(*wrong, *wrong), InvalidArgument);
    }
  }
  expect_usable();
}

// Strided views that touch each other are side by side; one element further they overlap.
WORLD_TEST(Refusals, ViewsThatTouchDoNotOverlap) {
  std::vector<float> x(40);
  struct Views {
    std::size_t in, out;
    Dimensions in_shape, in_strides, out_shape, out_strides;
    bool overlap;
  };
  const std::vector<Views> rows{
      {0, 5, {3}, {2}, {3}, {2}, false},  // 0, 2, 4 and 5, 7, 9
      {0, 4, {3}, {2}, {3}, {2}, true},   // 4 is in both
      {5, 0, {3}, {2}, {3}, {2}, false},  // the other way round
      {4, 0, {3}, {2}, {3}, {2}, true},
      {8, 9, {3}, {-2}, {3}, {2}, false},  // 4, 6, 8 and 9, 11, 13
      {8, 8, {3}, {-2}, {3}, {2}, true},
      {13, 8, {3}, {-2}, {3}, {-2}, false},  // 9, 11, 13 and 4, 6, 8
      {12, 8, {3}, {-2}, {3}, {-2}, true},
      {10, 7, {3}, {3}, {3}, {-3}, false},  // 10, 13, 16 and 1, 4, 7
      {6, 7, {3}, {3}, {3}, {-3}, true},
      {0, 14, {2, 2}, {10, 3}, {2, 2}, {1, 3}, false},  // up to 13
      {0, 13, {2, 2}, {10, 3}, {2, 2}, {1, 3}, true},
      {20, 17, {2, 2}, {10, -2}, {2, 2}, {-1, -3}, false},  // 18 to 30, and 13 to 17
      {20, 18, {2, 2}, {10, -2}, {2, 2}, {-1, -3}, true},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Views& row = rows[i];
    const TensorView in = floats(x, row.in, row.in_shape, row.in_strides), out = floats(x, row.out, row.out_shape, row.out_strides);
    if (row.overlap) {
      EXPECT_THROW(all_reduce(in, out), InvalidArgument) << i;
    } else {
      EXPECT_NO_THROW(all_reduce(in, out)) << i;
    }
  }
  // Nothing lies anywhere.
  EXPECT_NO_THROW(all_reduce(floats(x, 3, {0}), floats(x, 3, {0})));
  EXPECT_NO_THROW(gather(floats(x, 3, {0}), floats(x, 2, {0}), 0));
}

WORLD_TEST(Refusals, RefusalsSayWhichCallItWouldHaveBeen) {
  const ProcessGroup group = split_group(world(), 0).value();
  std::vector<float> x(2), y(1);
  barrier(group);
  const auto error = thrown_by<InvalidArgument>([&] { all_reduce(x, y, ReduceOp::sum, group); });
  EXPECT_EQ(error.sequence(), 2U);
  EXPECT_NE(error.message().find("input has 2 elements, output has 1 element in"), std::string::npos) << error.message();
}

// By the counts: every length on every rank, of the root's part only at the root.
WORLD_TEST(Refusals, LengthsOfBlocksOfDifferentLengthAreChecked) {
  const auto n = static_cast<std::size_t>(world_size());
  const auto me = static_cast<std::size_t>(rank());
  std::vector<std::size_t> counts(n);
  for (std::size_t r = 0; r < n; ++r) counts[r] = r + 1;
  const std::size_t sum = n * (n + 1) / 2;
  std::vector<float> part(me + 1), longer_part(me + 2), whole(sum), longer(sum + 1);
  const auto refused = [](auto&& call, const std::string& which) {
    const auto error = thrown_by<InvalidArgument>(call);
    EXPECT_NE(error.message().find(which), std::string::npos) << error.message();
  };
  refused([&] { all_gather_v(longer_part, whole, counts); }, "the input has");
  refused([&] { all_gather_v(part, longer, counts); }, "the output has");
  refused([&] { gather_v(longer_part, whole, counts, rank()); }, "the input has");
  refused([&] { gather_v(part, longer, counts, rank()); }, "the output has");
  refused([&] { scatter_v(longer, counts, part, rank()); }, "the input has");
  refused([&] { scatter_v(whole, counts, longer_part, rank()); }, "the output has");
  refused([&] { reduce_scatter_v(longer, counts, part); }, "the input has");
  refused([&] { reduce_scatter_v(whole, counts, longer_part); }, "the output has");
  refused([&] { all_to_all_v(longer, counts, whole, counts); }, "the input has");
  refused([&] { all_to_all_v(whole, counts, longer, counts); }, "the output has");
  // The argument that only the root needs does not count on other ranks, wherever it lies.
  for (int root = 0; root < world_size(); ++root) {
    const bool is_root = rank() == root;
    gather_v(part, is_root ? std::span(whole) : std::span(part), counts, root);
    scatter_v(is_root ? std::span(whole) : std::span(part), counts, part, root);
    std::vector<float> block(2), blocks(2 * n);
    gather(block, is_root ? std::span(blocks) : std::span(block), root);
    scatter(is_root ? std::span(blocks) : std::span(block), block, root);
  }
}

// With factors and without are two calls, and the text tells which.
MANY_TEST(Refusals, AFactorIsComparedAndShown) {
  std::vector<float> x{1.0F};
  const auto error = thrown_by<Mismatch>([&] {
    if (rank() == 0) all_reduce(x, premul_sum(2.0));
    else all_reduce(x);
  });
  EXPECT_NE(std::string(error.what()).find("premul_sum"), std::string::npos) << error.what();
}

// An empty buffer lies nowhere, also between the elements of something else.
WORLD_TEST(Refusals, AnEmptyBlockMayLieAnywhere) {
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<std::size_t> counts(n, 2);
  counts[0] = 0;
  const std::size_t own = rank() == 0 ? 0 : 2;
  std::vector<float> whole(2 * n, 1.0F), part(own);
  if (rank() == 0) {
    const TensorView inside = floats(whole, 1, {0}), all = floats(whole, 0, {static_cast<std::int64_t>(2 * n - 2)});
    all_gather_v(inside, all, counts);
    reduce_scatter_v(all, counts, inside);
  } else {
    all_gather_v(part, std::span(whole).first(2 * n - 2), counts);
    reduce_scatter_v(std::span(whole).first(2 * n - 2), counts, part);
  }
}

// Alone, what is sent to everybody is what everybody gets.
WORLD_TEST(Refusals, AllToAllInPlaceIsForOneRank) {
  std::vector<float> x(2 * static_cast<std::size_t>(world_size()), 1.0F);
  const std::vector<std::size_t> counts(static_cast<std::size_t>(world_size()), 2);
  if (world_size() == 1) {
    all_to_all(x, x);
    all_to_all_v(x, counts, x, counts);
    EXPECT_EQ(x, std::vector<float>(2, 1.0F));
  } else {
    EXPECT_THROW(all_to_all(x, x), InvalidArgument);
    EXPECT_THROW(all_to_all_v(x, counts, x, counts), InvalidArgument);
  }
}

// The rank that a call names is called as its parameter is.
WORLD_TEST(Refusals, ARootThatIsNotInTheGroup) {
  const int n = world_size();
  std::vector<float> x(3), y(3 * static_cast<std::size_t>(n));
  const auto text_of = [](auto&& call) { return thrown_by<InvalidArgument>(call).message(); };
  const std::string text = ": rank " + std::to_string(n) + " is not in the group of " + std::to_string(n);
  EXPECT_EQ(text_of([&] { reduce(x, n); }), "dst" + text);
  EXPECT_EQ(text_of([&] { broadcast(x, n); }), "root" + text);
  EXPECT_EQ(text_of([&] { gather(x, y, n); }), "root" + text);
}

// The tags below are for what the library itself sends.
WORLD_TEST(Refusals, ATagOfTheLibrarysOwnIsRefused) {
  const int lowest = engines::lowest_tag;
  std::vector<float> x(3, 1.0F);
  const auto error = thrown_by<InvalidArgument>([&] { all_reduce(x, ReduceOp::sum, world(), {.tag = lowest - 1}); });
  EXPECT_EQ(error.message(), "tag " + std::to_string(lowest - 1) + " is one of the library's own");
  EXPECT_EQ(error.hint(), "tags begin at " + std::to_string(lowest));
  all_reduce(x, ReduceOp::sum, world(), {.tag = lowest});
  EXPECT_EQ(x[2], static_cast<float>(world_size()));
}

// The calls that size their output, and messages, are checked as all others.
WORLD_TEST(Refusals, CallsThatSizeTheirOutputAndMessagesAreRefusedAsWell) {
  const CallOptions negative{.timeout = std::chrono::milliseconds(-1)};
  const int n = world_size();
  std::vector<float> x(3), out;
  const std::vector<std::size_t> counts(static_cast<std::size_t>(n), 1);
  const auto text_of = [](auto&& call) { return thrown_by<InvalidArgument>(call).message(); };
  EXPECT_NE(text_of([&] { all_gather_v(x, out, world(), negative); }).find("timeout is negative"), std::string::npos);
  EXPECT_NE(text_of([&] { gather_v(x, out, n); }).find("root: rank " + std::to_string(n)), std::string::npos);
  EXPECT_NE(text_of([&] { send(x, n, world(), {}); }).find("dst: rank"), std::string::npos);
  EXPECT_NE(text_of([&] { recv(x, n, world(), {}); }).find("src: rank"), std::string::npos);
  if (n == 1) return;
  const int next = (rank() + 1) % n;
  EXPECT_NE(text_of([&] { send(x, next, world(), negative); }).find("timeout is negative"), std::string::npos);
  EXPECT_NE(text_of([&] { recv(x, next, world(), negative); }).find("timeout is negative"), std::string::npos);
}

}  // namespace
