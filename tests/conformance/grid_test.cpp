// The ranks of a group as the cells of a grid.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "covers.h"
#include "unisono/grid.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

using Extents = std::vector<int>;

TEST(GridExtents, ExtentsOfAGridAreAsNearToEachOtherAsCanBe) {
  EXPECT_EQ(Grid::choose_extents(12, {0, 0}), (Extents{4, 3}));
  EXPECT_EQ(Grid::choose_extents(12, {0, 3, 0}), (Extents{2, 3, 2}));
  EXPECT_EQ(Grid::choose_extents(36, {0, 0, 0}), (Extents{4, 3, 3}));
  EXPECT_EQ(Grid::choose_extents(64, {0, 0, 0}), (Extents{4, 4, 4}));
  EXPECT_EQ(Grid::choose_extents(7, {0, 0}), (Extents{7, 1}));
  EXPECT_EQ(Grid::choose_extents(1, {0, 0, 0}), (Extents{1, 1, 1}));
  EXPECT_EQ(Grid::choose_extents(96, {0, 0, 0}), (Extents{6, 4, 4}));
  EXPECT_EQ(Grid::choose_extents(15, {0, 0, 0}), (Extents{5, 3, 1}));
  EXPECT_EQ(Grid::choose_extents(2018, Extents(7)), (Extents{1009, 2, 1, 1, 1, 1, 1}));  // 1009^7 is beyond 64 bits
  EXPECT_EQ(Grid::choose_extents(6, {3, 2}), (Extents{3, 2}));
  EXPECT_EQ(Grid::choose_extents(6, {2, 0}), (Extents{2, 3}));
}

TEST(GridExtents, ImpossibleExtentsOfAGridAreRefused) {
  EXPECT_THROW(Grid::choose_extents(6, {4, 0}), InvalidArgument);
  EXPECT_THROW(Grid::choose_extents(6, {2, 2}), InvalidArgument);
  EXPECT_THROW(Grid::choose_extents(6, {2}), InvalidArgument);
  EXPECT_THROW(Grid::choose_extents(6, {1 << 30, 1 << 30, 6}), InvalidArgument);
  EXPECT_THROW(Grid::choose_extents(6, {-2, -3}), InvalidArgument);
  EXPECT_THROW(Grid::choose_extents(6, {}), InvalidArgument);
  EXPECT_THROW(Grid::choose_extents(1, {}), InvalidArgument);
  EXPECT_THROW(Grid::choose_extents(0, {0}), InvalidArgument);
}

WORLD_TEST(Grids, CellsAndRanksMatch) {
  COVERS("TS-47");
  const Grid grid({0, 0});
  const Extents& extents = grid.extents();
  EXPECT_EQ(extents[0] * extents[1], world_size());
  EXPECT_EQ(grid.group(), world());
  EXPECT_EQ(grid.coordinates(), (Extents{rank() / extents[1], rank() % extents[1]}));
  for (int r = 0; r < world_size(); ++r) EXPECT_EQ(grid.rank_at(grid.coordinates_of(r)), r);
  EXPECT_EQ(grid.rank_at({extents[0] - 1, extents[1] - 1}), world_size() - 1);
  EXPECT_EQ(grid.rank_at({0, -1}), std::nullopt);
  EXPECT_EQ(grid.rank_at({extents[0], 0}), std::nullopt);
  EXPECT_THROW(static_cast<void>(grid.rank_at({0})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(grid.coordinates_of(world_size())), InvalidArgument);
  EXPECT_THROW(static_cast<void>(grid.coordinates_of(-1)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(grid.coordinates_of(GlobalRank{world_size()})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(grid.neighbour(2)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(grid.is_periodic(2)), InvalidArgument);
  EXPECT_THROW(Grid({0, 0}, {.periodic = {true}}), InvalidArgument);
}

// None at the border, the other end on a periodic axis.
WORLD_TEST(Grids, NeighboursAreFoundAlongEachAxis) {
  const int n = world_size();
  const Grid line({n}), ring({n}, {.periodic = {true}});
  EXPECT_EQ(line.neighbour(0), rank() + 1 < n ? std::optional(rank() + 1) : std::nullopt);
  EXPECT_EQ(line.neighbour(0, -1), rank() > 0 ? std::optional(rank() - 1) : std::nullopt);
  EXPECT_EQ(line.neighbour(0, n), std::nullopt);
  EXPECT_EQ(ring.neighbour(0), (rank() + 1) % n);
  EXPECT_EQ(ring.neighbour(0, -1), (rank() + n - 1) % n);
  EXPECT_EQ(ring.neighbour(0, 3 * n - 1), (rank() + n - 1) % n);
  EXPECT_TRUE(ring.is_periodic(0));
  EXPECT_FALSE(line.is_periodic(0));
  if (n == 1) return;
  const int up = *ring.neighbour(0), down = *ring.neighbour(0, -1);
  EXPECT_EQ(send_recv(10 * rank(), up, down), 10 * down);
}

// The rows and columns of a grid are groups of their own.
WORLD_TEST(Grids, RowsAndColumnsAreGroups) {
  COVERS("TS-47");
  const Grid grid({0, 0}, {.periodic = {false, true}});
  const Extents at = grid.coordinates();
  const int rows = grid.extents()[0], columns = grid.extents()[1];
  const Grid row = grid.along({1}), column = grid.along({0});
  EXPECT_EQ(row.extents(), Extents{columns});
  EXPECT_TRUE(row.is_periodic(0));
  EXPECT_FALSE(column.is_periodic(0));
  EXPECT_EQ(row.coordinates(), Extents{at[1]});
  EXPECT_EQ(column.coordinates(), Extents{at[0]});
  int sum = 0;
  for (int c = 0; c < columns; ++c) sum += *grid.rank_at({at[0], c});
  EXPECT_EQ(all_reduce(rank(), ReduceOp::sum, row.group()), sum);
  EXPECT_EQ(all_gather(at[0], column.group()).size(), static_cast<std::size_t>(rows));
  EXPECT_EQ(grid.along({0, 1}).extents(), grid.extents());
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { grid.along({2}); }).message(), "there is no axis 2 among 2");
  // Nothing is called before what is asked for makes sense.
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { grid.along({}); }).hint(), "give those along which the part goes on");
}

// A square would give each rank a group of the right size.
WORLD_TEST(Grids, GridsThatAreCutInDifferentWaysAreAMismatchOnAllRanks) {
  if (world_size() == 1) GTEST_SKIP() << "one rank has nobody to differ from";
  const Grid grid({0, 0});
  const int last = world_size() - 1;
  const auto error = thrown_by<Mismatch>([&] { grid.along({rank() == last ? 1 : 0}); });
  EXPECT_EQ(error.message(), fmt::format("rank {} gives other axes than rank 0, or has another grid", last));
  EXPECT_EQ(grid.along({0}).extents(), Extents{grid.extents()[0]}) << "the group goes on";
}

// Along one of three axes there is a part for every pair of places on the two others.
WORLD_TEST(Grids, OneAxisOfThreeIsAGroup) {
  const Grid grid({0, 0, 0});
  const Extents at = grid.coordinates();
  const Grid part = grid.along({2});
  Extents expected;
  for (int c = 0; c < grid.extents()[2]; ++c) expected.push_back(*grid.rank_at({at[0], at[1], c}));
  EXPECT_EQ(part.group().global_ranks(), expected);
}

// A grid of a group whose ranks are not the world's.
WORLD_TEST(Grids, AGroupHasAGrid) {
  const auto turned = split_group(world(), 0, -rank());
  const Grid grid({world_size(), 1}, {.group = turned});
  EXPECT_EQ(grid.coordinates(), (Extents{world_size() - 1 - rank(), 0}));
  EXPECT_EQ(grid.coordinates_of(GlobalRank{0}), (Extents{world_size() - 1, 0}));
}

}  // namespace
