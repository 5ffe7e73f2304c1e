#pragma once

#include <initializer_list>
#include <optional>
#include <source_location>
#include <span>
#include <vector>

#include "unisono/export.h"
#include "unisono/process_group.h"

// The ranks of a group as the cells of a grid: MPI's Cartesian topologies (MPI_Cart_create,
// MPI_Dims_create, MPI_Cart_shift, MPI_Cart_sub).

namespace unisono {

/// The options of a grid.
struct GridOptions {
  /// For each axis, whether its first cell follows its last. Empty: no axis is periodic.
  std::vector<bool> periodic = {};
  /// The group whose ranks are the cells; the world unless it is set.
  std::optional<ProcessGroup> group = {};
  /// The place of the call, as in CallOptions.
  std::source_location where = std::source_location::current();
};

/// A grid whose cells are the ranks of a group, row by row: rank 1 is the neighbour of rank 0 on
/// the last axis.
///
/// Only `along` sends anything; everything else is computed on each rank. InvalidArgument is thrown
/// for an axis or a rank that the grid does not have.
///
/// ```cpp
/// const Grid grid({0, 0}, {.periodic = {true, true}});     // two axes, as near to a square as can be
/// if (const auto east = grid.neighbour(1)) send(border, *east);
/// ```
class UNISONO_API Grid {
 public:
  /// Makes a grid of the ranks of the group.
  ///
  /// @param extents the number of cells of each axis; a 0 is chosen, so that the chosen extents are
  ///   as near to each other as can be, the larger ones first
  /// @throws InvalidArgument if the product of the extents cannot be the size of the group
  explicit Grid(std::vector<int> extents, const GridOptions& options = {});
  /// Returns the extents of such a grid: `choose_extents(12, {0, 3, 0})` is 2, 3, 2.
  static std::vector<int> choose_extents(int ranks, std::vector<int> extents, std::source_location where = std::source_location::current());

  /// Returns the group whose ranks are the cells.
  const ProcessGroup& group() const noexcept { return group_; }
  /// Returns the number of cells of each axis.
  const std::vector<int>& extents() const noexcept { return extents_; }
  /// Tells whether the first cell of the axis follows its last.
  bool is_periodic(int axis) const;
  /// Returns the cell of this rank.
  std::vector<int> coordinates() const;
  /// Returns the cell of a rank.
  std::vector<int> coordinates_of(Rank rank) const;
  /// Returns the rank of a cell. Coordinates wrap on a periodic axis; beyond the border of another
  /// axis there is std::nullopt.
  std::optional<int> rank_at(std::span<const int> coordinates) const;
  /// Returns the rank of a cell given in braces.
  std::optional<int> rank_at(std::initializer_list<int> coordinates) const { return rank_at(std::span(coordinates.begin(), coordinates.size())); }
  /// Returns the rank that is `distance` cells further on the axis, or back if it is negative;
  /// std::nullopt beyond the border.
  std::optional<int> neighbour(int axis, int distance = 1) const;
  /// Returns the part of the grid that this rank reaches along these axes: its row, for instance.
  /// Collective over the group; every rank gives the same axes.
  /// @throws Mismatch on all ranks if one gives other axes or has another grid
  Grid along(std::span<const int> axes, std::source_location where = std::source_location::current()) const;
  /// Returns the part of the grid along the axes in braces.
  Grid along(std::initializer_list<int> axes, std::source_location where = std::source_location::current()) const {
    return along(std::span(axes.begin(), axes.size()), where);
  }

 private:
  void check_axis(int axis) const;

  ProcessGroup group_;
  std::vector<int> extents_;
  std::vector<bool> periodic_;
};

}  // namespace unisono
