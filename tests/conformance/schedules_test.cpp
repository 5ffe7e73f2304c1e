// Every operation in few lengths: the program that runs once for each set of algorithms that UNISONO_SCHEDULE forces.

#include <algorithm>
#include <vector>

#include "blocks.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

/// None, more than ranks, and more than an eager message takes. Sums of more elements of 8 ranks would not be exact in float32.
std::vector<std::size_t> counts() { return {0, static_cast<std::size_t>(world_size()) + 2, 20011}; }

/// Blocks of the same length, of different ones, and all in one.
std::vector<Lengths> blocks() {
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<Lengths> all{Lengths(n, 1), Lengths(n, 0), Lengths(n, 0)};
  for (std::size_t r = 0; r < n; ++r) all[1][r] = r % 2 == 0 ? 1009 * r : 3;
  all[2][n - 1] = 20011;
  return all;
}

/// Associative, but it does not commute: the last rank that has something but 0. Gloo's own collectives have an order of their own.
float last_of(float a, float b) { return b != 0 ? b : a; }
bool keeps_order() { return world().backend() != "gloo"; }

std::vector<float> part(const std::vector<float>& whole, std::size_t begin, std::size_t count) {
  return {whole.begin() + static_cast<std::ptrdiff_t>(begin), whole.begin() + static_cast<std::ptrdiff_t>(begin + count)};
}

const auto n = [] { return static_cast<std::size_t>(world_size()); };
const auto me = [] { return static_cast<std::size_t>(rank()); };

WORLD_TEST(Schedules, AllReduceIsRightByEverySchedule) {
  for (const std::size_t count : counts()) {
    const auto in = values<float>(count, rank());
    auto x = in;
    all_reduce(x);
    ASSERT_EQ(difference(x, sums<float>(count, world_size())), "") << count;
    std::vector<float> out(count, -1);
    all_reduce(in, out, ReduceOp::max);
    ASSERT_EQ(difference(out, values<float>(count, world_size() - 1)), "") << count;
    ASSERT_EQ(in, values<float>(count, rank())) << "the input was written to";
    x = in;
    all_reduce(x, last_of);
    if (keeps_order()) {
      ASSERT_EQ(difference(x, values<float>(count, world_size() - 1)), "") << count;
    }
    std::vector<std::int64_t> whole = values<std::int64_t>(count, rank());
    all_reduce(whole, ReduceOp::avg);
    auto means = sums<std::int64_t>(count, world_size());
    for (auto& each : means) each /= world_size();
    ASSERT_EQ(difference(whole, means), "") << count;
    std::vector<double> numbers = values<double>(count, rank());
    all_reduce(numbers, ReduceOp::avg);
    auto expected = sums<double>(count, world_size());
    for (auto& each : expected) each /= world_size();
    ASSERT_EQ(difference(numbers, expected), "") << count;
  }
}

WORLD_TEST(Schedules, ReduceIsRightByEverySchedule) {
  for (const std::size_t count : counts()) {
    for (int root = 0; root < world_size(); ++root) {
      auto x = values<float>(count, rank());
      reduce(x, Rank{root});
      ASSERT_EQ(difference(x, rank() == root ? sums<float>(count, world_size()) : values<float>(count, rank())), "") << count << " to " << root;
      x = values<float>(count, rank());
      reduce(x, Rank{root}, last_of);
      if (keeps_order() || rank() != root) {
        ASSERT_EQ(difference(x, values<float>(count, rank() == root ? world_size() - 1 : rank())), "") << count << " to " << root;
      }
    }
  }
}

WORLD_TEST(Schedules, ReduceScatterIsRightByEverySchedule) {
  for (const std::size_t count : counts()) {
    const auto in = values<float>(count * n(), rank());
    const auto expected = part(sums<float>(count * n(), world_size()), count * me(), count);
    std::vector<float> out(count, -1);
    reduce_scatter(in, out);
    ASSERT_EQ(difference(out, expected), "") << count;
    ASSERT_EQ(in, values<float>(count * n(), rank())) << "the input was written to";
  }
  for (const Lengths& lengths : blocks()) {
    const auto in = values<float>(total(lengths), rank());
    std::vector<float> out(own(lengths), -1);
    reduce_scatter_v(in, lengths, out);
    ASSERT_EQ(difference(out, part(sums<float>(total(lengths), world_size()), before(lengths, rank()), own(lengths))), "");
  }
}

WORLD_TEST(Schedules, ScanIsRightByEverySchedule) {
  for (const std::size_t count : counts()) {
    auto inclusive = values<float>(count, rank());
    scan(inclusive);
    ASSERT_EQ(difference(inclusive, sums<float>(count, rank() + 1)), "") << count;
    auto exclusive = values<float>(count, rank());
    exscan(exclusive);
    ASSERT_EQ(difference(exclusive, rank() == 0 ? values<float>(count, 0) : sums<float>(count, rank())), "") << count;
    auto last = values<float>(count, rank());
    exscan(last, last_of);
    ASSERT_EQ(difference(last, values<float>(count, std::max(rank() - 1, 0))), "") << count;
  }
}

WORLD_TEST(Schedules, BroadcastAndScatterAreRightByEverySchedule) {
  for (const std::size_t count : counts()) {
    for (int root = 0; root < world_size(); ++root) {
      auto x = values<float>(count, rank());
      broadcast(x, Rank{root});
      ASSERT_EQ(difference(x, values<float>(count, root)), "") << count << " from " << root;
      const auto all = values<float>(rank() == root ? count * n() : 0, root);
      std::vector<float> out(count, -1);
      scatter(all, out, Rank{root});
      ASSERT_EQ(difference(out, part(values<float>(count * n(), root), count * me(), count)), "") << count << " from " << root;
    }
  }
  for (const Lengths& lengths : blocks()) {
    for (int root = 0; root < world_size(); ++root) {
      const auto all = rank() == root ? blocks_of_all<float>(lengths) : std::vector<float>();
      std::vector<float> out(own(lengths), -1);
      scatter_v(all, lengths, out, Rank{root});
      ASSERT_EQ(difference(out, values<float>(own(lengths), rank())), "") << "from " << root;
    }
  }
}

WORLD_TEST(Schedules, GathersAreRightByEverySchedule) {
  for (const std::size_t count : counts()) {
    const auto in = values<float>(count, rank());
    const auto everything = blocks_of_all<float>(Lengths(n(), count));
    std::vector<float> all(count * n(), -1);
    all_gather(in, all);
    ASSERT_EQ(difference(all, everything), "") << count;
    for (int root = 0; root < world_size(); ++root) {
      std::vector<float> gathered(rank() == root ? count * n() : 0, -1);
      gather(in, gathered, Rank{root});
      if (rank() == root) {
        ASSERT_EQ(difference(gathered, everything), "") << count << " to " << root;
      }
    }
  }
  for (const Lengths& lengths : blocks()) {
    const auto in = values<float>(own(lengths), rank());
    std::vector<float> all(total(lengths), -1);
    all_gather_v(in, all, lengths);
    ASSERT_EQ(difference(all, blocks_of_all<float>(lengths)), "");
    for (int root = 0; root < world_size(); ++root) {
      std::vector<float> gathered(rank() == root ? total(lengths) : 0, -1);
      gather_v(in, gathered, lengths, Rank{root});
      if (rank() == root) {
        ASSERT_EQ(difference(gathered, blocks_of_all<float>(lengths)), "") << "to " << root;
      }
    }
  }
}

// Elements may be on their way when the ranks find that their calls differ: they are dropped, however often that happens.
WORLD_TEST_IN((Worlds{.at_least = 2}), Schedules, NothingIsHandedOutOfAllToAllsThatDiffer) {
  for (int round = 0; round < 40; ++round) {
    const bool is_odd = rank() == round % world_size();
    const std::size_t count = is_odd && round % 2 == 0 ? 9001 : 9000;
    const auto in = values<float>(count * n(), rank());
    std::vector<float> out(in.size(), -1);
    if (is_odd && round % 2 == 1) EXPECT_THROW(barrier(), Mismatch);
    else EXPECT_THROW(all_to_all(in, out), Mismatch);
    ASSERT_EQ(out, std::vector<float>(in.size(), -1)) << round;
  }
  const auto in = values<float>(9000 * n(), 20 + rank());  // others than before
  std::vector<float> out(in.size(), -1);
  all_to_all(in, out);
  for (std::size_t r = 0; r < n(); ++r) {
    ASSERT_EQ(part(out, 9000 * r, 9000), part(values<float>(in.size(), 20 + static_cast<int>(r)), 9000 * me(), 9000)) << r;
  }
}

WORLD_TEST(Schedules, AllToAllIsRightByEverySchedule) {
  for (const std::size_t count : counts()) {
    const auto in = values<float>(count * n(), rank());
    std::vector<float> out(count * n(), -1), expected;
    for (int r = 0; r < world_size(); ++r) {
      const auto block = part(values<float>(count * n(), r), count * me(), count);
      expected.insert(expected.end(), block.begin(), block.end());
    }
    all_to_all(in, out);
    ASSERT_EQ(difference(out, expected), "") << count;
  }
  // Rank a sends b + 3 a elements to rank b.
  Lengths sends(n()), expects(n());
  std::vector<float> expected;
  for (std::size_t r = 0; r < n(); ++r) {
    sends[r] = r + 3 * me();
    expects[r] = me() + 3 * r;
    const auto sent = values<float>(n() * (n() - 1) / 2 + 3 * r * n(), static_cast<int>(r));
    const auto block = part(sent, me() * (me() - (me() > 0 ? 1 : 0)) / 2 + 3 * r * me(), expects[r]);
    expected.insert(expected.end(), block.begin(), block.end());
  }
  std::vector<float> out(total(expects), -1);
  all_to_all_v(values<float>(total(sends), rank()), sends, out, expects);
  ASSERT_EQ(difference(out, expected), "");
}

}  // namespace
