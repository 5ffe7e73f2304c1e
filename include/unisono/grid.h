#pragma once

#include <initializer_list>
#include <optional>
#include <source_location>
#include <span>
#include <vector>

#include "unisono/export.h"
#include "unisono/process_group.h"

// The ranks of a group as the cells of a grid: MPI's Cartesian topologies (MPI_Cart_create, MPI_Dims_create, MPI_Cart_shift, MPI_Cart_sub).

namespace unisono {

struct GridOptions {
  std::vector<bool> periodic = {};         ///< of each axis: whether behind its last cell comes its first. Empty: none is
  std::optional<ProcessGroup> group = {};  ///< unset: the world
  std::source_location where = std::source_location::current();
};

/// Row by row: rank 1 is the neighbour of rank 0 on the last axis. Nothing is sent but by `along`. An axis or a rank that there is not is
/// InvalidArgument.
class UNISONO_API Grid {
 public:
  /// `extents`: how many cells each axis has; those that are 0 are chosen, as near to each other as can be, the larger first. InvalidArgument where
  /// their product cannot be the size of the group.
  explicit Grid(std::vector<int> extents, const GridOptions& options = {});
  /// The extents of such a grid: `choose_extents(12, {0, 3, 0})` is 2, 3, 2.
  static std::vector<int> choose_extents(int ranks, std::vector<int> extents, std::source_location where = std::source_location::current());

  const ProcessGroup& group() const noexcept { return group_; }
  const std::vector<int>& extents() const noexcept { return extents_; }
  bool is_periodic(int axis) const;
  std::vector<int> coordinates() const;  ///< of this rank
  std::vector<int> coordinates_of(Rank rank) const;
  /// The rank of a cell. Coordinates on a periodic axis wrap; nullopt beyond the border of another.
  std::optional<int> rank_at(std::span<const int> coordinates) const;
  std::optional<int> rank_at(std::initializer_list<int> coordinates) const { return rank_at(std::span(coordinates.begin(), coordinates.size())); }
  /// The rank so many cells further on the axis, or back where it is negative; nullopt beyond the border.
  std::optional<int> neighbour(int axis, int distance = 1) const;
  /// The part of the grid in which only these axes go on from this rank: one row, for instance. Collective over the group; every rank gives the same
  /// axes.
  Grid along(std::span<const int> axes, std::source_location where = std::source_location::current()) const;
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
