#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <tuple>

#include "engine_ranks.h"

// Every operation that moves elements, with as many of them as make Gloo cut differently, against its definition.

namespace unisono::testing {
namespace {

using Values = std::vector<std::int32_t>;

/// The element of rank `rank` at `index`: another value everywhere.
std::int32_t value(int rank, std::size_t index) { return 1'000'003 * (rank + 1) + 7 * static_cast<std::int32_t>(index); }

Values of_rank(int rank, std::size_t count, std::size_t from = 0) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value(rank, from + i);
  return values;
}

TensorView view(Values& values) { return {values.data(), DType::int32, values.size()}; }

CollectiveCall call_of(Operation operation, Values& in, Values& out, std::size_t count, int root = -1) {
  CollectiveCall call;
  call.operation = operation;
  call.in = view(in);
  call.out = view(out);
  call.count = count;
  call.root = root;
  return call;
}

void run(Engine& engine, const CollectiveCall& call) {
  ASSERT_TRUE(engine.offers(call)) << to_string(call.operation);
  engine.run(call);
}

class Moves : public ::testing::TestWithParam<std::tuple<int, std::size_t>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  std::size_t count() const { return std::get<1>(GetParam()); }
  std::size_t total() const { return count() * static_cast<std::size_t>(ranks()); }
  Values everything() const {
    Values all;
    for (int r = 0; r < ranks(); ++r) {
      const Values block = of_rank(r, count());
      all.insert(all.end(), block.begin(), block.end());
    }
    return all;
  }
};

TEST_P(Moves, BroadcastMovesTheBytesOfTheRoot) {
  with_engines(ranks(), [&](Engine& engine, int rank) {
    for (int root = 0; root < ranks(); ++root) {
      Values data = of_rank(rank, count());
      Values none;
      run(engine, rank == root ? call_of(Operation::broadcast, data, none, count(), root) : call_of(Operation::broadcast, none, data, count(), root));
      EXPECT_EQ(data, of_rank(root, count()));
      Values in = of_rank(rank, count());
      Values out(count(), -1);
      run(engine, call_of(Operation::broadcast, in, out, count(), root));
      if (rank != root) {
        EXPECT_EQ(out, of_rank(root, count()));
      }
    }
  });
}

TEST_P(Moves, AllGatherMovesTheBytesOfAllRanks) {
  with_engines(ranks(), [&](Engine& engine, int rank) {
    Values in = of_rank(rank, count());
    Values out(total(), -1);
    run(engine, call_of(Operation::all_gather, in, out, count()));
    EXPECT_EQ(out, everything());

    Values own(total(), -1);
    std::copy(in.begin(), in.end(), own.begin() + rank * static_cast<std::ptrdiff_t>(count()));
    CollectiveCall call = call_of(Operation::all_gather, in, own, count());
    call.in = {own.data() + static_cast<std::size_t>(rank) * count(), DType::int32, count()};
    run(engine, call);
    EXPECT_EQ(own, everything());
  });
}

TEST_P(Moves, GatherMovesBytesToTheRoot) {
  with_engines(ranks(), [&](Engine& engine, int rank) {
    for (int root = 0; root < ranks(); ++root) {
      Values in = of_rank(rank, count());
      Values out(rank == root ? total() : 0, -1);
      run(engine, call_of(Operation::gather, in, out, count(), root));
      EXPECT_EQ(out, rank == root ? everything() : Values{});
    }
  });
}

TEST_P(Moves, ScatterMovesBytesFromTheRoot) {
  with_engines(ranks(), [&](Engine& engine, int rank) {
    for (int root = 0; root < ranks(); ++root) {
      Values in = rank == root ? of_rank(root, total()) : Values{};
      Values out(count(), -1);
      run(engine, call_of(Operation::scatter, in, out, count(), root));
      EXPECT_EQ(out, of_rank(root, count(), static_cast<std::size_t>(rank) * count()));
    }
  });
}

TEST_P(Moves, AllToAllMovesBytesBetweenAllPairs) {
  with_engines(ranks(), [&](Engine& engine, int rank) {
    Values in = of_rank(rank, total());
    Values out(total(), -1);
    run(engine, call_of(Operation::all_to_all, in, out, count()));
    Values expected;
    for (int r = 0; r < ranks(); ++r) {
      const Values block = of_rank(r, count(), static_cast<std::size_t>(rank) * count());
      expected.insert(expected.end(), block.begin(), block.end());
    }
    EXPECT_EQ(out, expected);
  });
}

/// The number of elements that `from` has for `to`: some pairs have nothing for each other.
std::size_t share(int from, int to, std::size_t count) { return (from + 2 * to) % 3 == 0 ? 0 : count + static_cast<std::size_t>(from + 3 * to); }

TEST_P(Moves, AllToAllVMovesBlocksOfDifferentLength) {
  with_engines(ranks(), [&](Engine& engine, int rank) {
    std::vector<std::size_t> to, from;
    Values expected;
    for (int r = 0; r < ranks(); ++r) {
      to.push_back(share(rank, r, count()));
      from.push_back(share(r, rank, count()));
      std::size_t before = 0;
      for (int s = 0; s < rank; ++s) before += share(r, s, count());
      const Values block = of_rank(r, from.back(), before);
      expected.insert(expected.end(), block.begin(), block.end());
    }
    Values in = of_rank(rank, std::accumulate(to.begin(), to.end(), std::size_t{0}));
    Values out(expected.size(), -1);
    CollectiveCall call = call_of(Operation::all_to_all_v, in, out, 0);
    call.counts = to;
    call.recv_counts = from;
    run(engine, call);
    EXPECT_EQ(out, expected);
  });
}

TEST_P(Moves, AllGatherVMovesBlocksOfDifferentLength) {
  with_engines(ranks(), [&](Engine& engine, int rank) {
    std::vector<std::size_t> counts;
    Values expected;
    for (int r = 0; r < ranks(); ++r) {
      counts.push_back(r % 2 == 1 ? 0 : count() + static_cast<std::size_t>(r));
      const Values block = of_rank(r, counts.back());
      expected.insert(expected.end(), block.begin(), block.end());
    }
    Values in = of_rank(rank, counts[static_cast<std::size_t>(rank)]);
    Values out(expected.size(), -1);
    CollectiveCall call = call_of(Operation::all_gather_v, in, out, expected.size());
    call.counts = counts;
    run(engine, call);
    EXPECT_EQ(out, expected);
  });
}

TEST_P(Moves, TheBarrierMovesNothing) {
  with_engines(ranks(), [&](Engine& engine, int) {
    Values none;
    for (int i = 0; i < 20; ++i) run(engine, call_of(Operation::barrier, none, none, 0));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Gloo, Moves,
    ::testing::Combine(::testing::Values(1, 2, 3, 4),
                       ::testing::Values(std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{1000}, std::size_t{300'001})),
    [](const auto& chosen) {
      return std::string("ranks").append(std::to_string(std::get<0>(chosen.param))).append("count").append(std::to_string(std::get<1>(chosen.param)));
    });

TEST(Gloo, TheEngineGlooSaysWhatItIs) {
  const Plugin& plugin = engine_plugin();
  EXPECT_EQ(plugin.abi, plugin_abi);
  EXPECT_STREQ(plugin.name, "gloo");
  EXPECT_EQ(plugin.bootstrap, nullptr);
  EXPECT_TRUE(plugin.traits().spans_hosts);
  with_engines(2, [](Engine& engine, int) {
    EXPECT_EQ(engine.name(), "gloo");
    EXPECT_TRUE(engine.blocks());
    EXPECT_FALSE(engine.has_channels());
    Values none;
    EXPECT_FALSE(engine.offers(call_of(Operation::scan, none, none, 0)));
    EXPECT_FALSE(engine.offers(call_of(Operation::reduce_scatter, none, none, 0)));
  });
}

}  // namespace
}  // namespace unisono::testing
