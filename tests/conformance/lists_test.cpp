// all_gather, gather and scatter with a buffer for each rank.
#include <array>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

using Lists = std::vector<std::vector<float>>;

Lists room(std::size_t count) { return Lists(static_cast<std::size_t>(world_size()), std::vector<float>(count, -1.0F)); }
Lists of_every_rank(std::size_t count) {
  Lists list;
  for (int r = 0; r < world_size(); ++r) list.push_back(values<float>(count, r));
  return list;
}

// The list is filled in group order.
WORLD_TEST(Lists, AllGatherFillsLists) {
  COVERS("T-32");
  for (const std::size_t count : interesting_counts(sizeof(float))) {
    const auto x = values<float>(count, rank());
    Lists list = room(count);
    all_gather(x, list);
    ASSERT_EQ(list, of_every_rank(count)) << count;
  }
  Lists list = room(5000);
  const auto x = values<float>(5000, rank());
  Work work = all_gather_async(x, list);
  work.wait();
  EXPECT_EQ(list, of_every_rank(5000));
}

// The caller's own buffer of the list may be the input; parts of one buffer are a list as well; where this rank has a list, others may have one
// buffer.
WORLD_TEST(Lists, ListsMayBeViewsAndTheCallersOwn) {
  const auto n = static_cast<std::size_t>(world_size());
  Lists list = room(40);
  std::vector<float>& own = list[static_cast<std::size_t>(rank())];
  own = values<float>(40, rank());
  all_gather(own, list);
  EXPECT_EQ(list, of_every_rank(40));

  std::vector<float> whole(40 * n, -1.0F);
  std::vector<std::span<float>> parts;
  for (std::size_t r = 0; r < n; ++r) parts.emplace_back(std::span(whole).subspan(40 * r, 40));
  const auto x = values<float>(40, rank());
  if (rank() % 2 == 0) all_gather(x, parts);
  else all_gather(x, list);
  if (rank() % 2 == 0) {
    for (std::size_t r = 0; r < n; ++r) EXPECT_EQ(difference(parts[r], values<float>(40, static_cast<int>(r))), "");
  }
  if (rank() % 2 == 1) all_gather(x, whole);
  else all_gather(x, list);
  EXPECT_EQ(list, of_every_rank(40));
}

// Strided tensors: every second element of a buffer of their own.
WORLD_TEST(Lists, TensorsMakeLists) {
  const std::int64_t shape[] = {7}, strides[] = {2};
  Lists memory = room(14);
  std::vector<TensorView> list;
  for (auto& x : memory) list.emplace_back(x.data(), DType::float32, shape, strides);
  all_gather(values<float>(7, rank()), list);
  for (int r = 0; r < world_size(); ++r) {
    for (std::size_t i = 0; i < 14; ++i) {
      ASSERT_EQ(memory[static_cast<std::size_t>(r)][i], i % 2 == 0 ? value<float>(r, i / 2) : -1.0F);
    }
  }
}

// Each rank in turn; elsewhere the list stays as it is and may be empty.
WORLD_TEST(Lists, GatherFillsLists) {
  COVERS("T-34");
  for (int dst = 0; dst < world_size(); ++dst) {
    const auto x = values<float>(300, rank());
    Lists list = rank() % 2 == 0 || rank() == dst ? room(300) : Lists();
    const Lists before = list;
    if (dst % 2 == 0) gather(x, list, dst);
    else gather_async(x, list, dst).wait();
    EXPECT_EQ(list, rank() == dst ? of_every_rank(300) : before);
  }
}

// Each rank in turn; elsewhere the list does not count.
WORLD_TEST(Lists, ScatterTakesLists) {
  COVERS("T-35");
  for (int src = 0; src < world_size(); ++src) {
    Lists list = rank() == src ? of_every_rank(300) : rank() % 2 == 0 ? room(1) : Lists();
    std::vector<float> x(300, -1.0F);
    if (src % 2 == 0) scatter(list, x, src);
    else scatter_async(list, x, src).wait();
    EXPECT_EQ(difference(x, values<float>(300, rank())), "");
    if (rank() == src) {  // in its own place
      scatter(list, list[static_cast<std::size_t>(src)], src);
      EXPECT_EQ(list, of_every_rank(300));
    } else {
      scatter(Lists(), x, src);
    }
  }
}

// A buffer for each rank, of the input's length and dtype.
WORLD_TEST(Lists, ListsThatDoNotFitAreRefused) {
  COVERS("T-32", "T-34", "T-35");
  const auto n = static_cast<std::size_t>(world_size());
  const auto x = values<float>(3, rank());
  std::vector<float> y(3);
  const auto refused = [&](auto list) {
    EXPECT_THROW(all_gather(x, list), InvalidArgument);
    EXPECT_THROW(gather(x, list, rank()), InvalidArgument);
    EXPECT_THROW(scatter(list, y, rank()), InvalidArgument);
  };
  refused(Lists(n + 1, std::vector<float>(3)));
  refused(Lists(n - 1, std::vector<float>(3)));
  refused(Lists(n, std::vector<float>(4)));
  Lists uneven(n, std::vector<float>(3));
  uneven.back().pop_back();
  refused(uneven);
  refused(std::vector<std::vector<int>>(n, std::vector<int>(3)));
  if (n > 1) {
    std::vector<float> memory(3 * n);
    std::vector<std::span<float>> overlapping(n, std::span(memory).first(3));
    EXPECT_THROW(all_gather(x, overlapping), InvalidArgument);
    Lists list = room(3);
    EXPECT_THROW(all_gather(list[static_cast<std::size_t>((rank() + 1) % world_size())], list), InvalidArgument);
  }
  Lists longer(n, std::vector<float>(4));
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { all_gather(x, longer); }).hint(), "each holds the block of one rank");
  const auto error = thrown_by<InvalidArgument>([&] {
    Lists none;
    all_gather(x, none);
  });
  EXPECT_EQ(error.operation(), "all_gather");
  expect_usable();
}

MANY_TEST(Lists, CallsWithListsAreComparedAmongRanks) {
  const std::size_t count = rank() == world_size() - 1 ? 4 : 3;
  const auto x = values<float>(count, rank());
  Lists list = room(count);
  const auto error = thrown_by<Mismatch>([&] { all_gather(x, list); });
  expect_culprit(error, world_size() - 1);
  EXPECT_EQ(list, room(count));
  expect_usable();
}

// Each rank's buffer has a length of its own, which the others learn.
std::size_t own_length(int r) { return r == 1 ? 0 : 100 + 7 * static_cast<std::size_t>(r); }
Lists of_own_lengths() {
  Lists list;
  for (int r = 0; r < world_size(); ++r) list.push_back(values<float>(own_length(r), r));
  return list;
}

WORLD_TEST(Lists, ListsAreReturned) {
  EXPECT_EQ(all_gather_list(values<float>(own_length(rank()), rank())), of_own_lengths());
  EXPECT_EQ(all_gather_list(std::array{rank(), -rank()}).back(), (std::vector<int>{world_size() - 1, 1 - world_size()}));
  for (int r = 0; r < world_size(); ++r) {
    const auto gathered = gather_list(values<float>(own_length(rank()), rank()), r);
    EXPECT_EQ(gathered, rank() == r ? std::optional(of_own_lengths()) : std::nullopt);
    const auto mine = scatter_list(rank() == r ? of_own_lengths() : Lists(), r);
    EXPECT_EQ(difference(mine, values<float>(own_length(rank()), rank())), "");
  }
}

// All ranks learn that the list is too short.
WORLD_TEST(Lists, ListsTooShortToBeScatteredAreRefused) {
  COVERS("T-35");
  Lists list = of_own_lengths();
  list.pop_back();
  const auto error = thrown_by<InvalidArgument>([&] { static_cast<void>(scatter_list(list, 0)); });
  EXPECT_EQ(error.operation(), "scatter_list");
  EXPECT_EQ(error.culprit(), 0);
  expect_usable();
}

}  // namespace
