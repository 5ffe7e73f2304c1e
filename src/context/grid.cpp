#include "unisono/grid.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error_place.h"
#include "base/hash.h"
#include "unisono/collectives.h"
#include "unisono/error.h"

namespace unisono {
namespace {

using base::with_place;

[[noreturn]] void wrong(const std::string& what, const std::string& hint = {}) { throw InvalidArgument(what, {.operation = "Grid", .hint = hint}); }

/// Returns the divisors of n in ascending order.
std::vector<int> divisors_of(int n) {
  std::vector<int> small, large;
  for (int d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    small.push_back(d);
    if (d != n / d) large.push_back(n / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

/// Writes n as a product of k factors in descending order, the largest of them as small as possible. `divisors` has all those of n, in ascending
/// order.
std::vector<int> balanced(int n, std::size_t k, const std::vector<int>& divisors) {
  if (k == 0) return {};
  if (k == 1) return {n};
  const auto is_large_enough = [&](int d) {
    std::int64_t power = 1;
    for (std::size_t i = 0; i < k && power < n; ++i) power *= d;
    return power >= n;
  };
  for (const int d : divisors) {
    if (n % d != 0 || !is_large_enough(d)) continue;
    std::vector<int> rest = balanced(n / d, k - 1, divisors);
    if (rest.front() > d) continue;
    rest.insert(rest.begin(), d);
    return rest;
  }
  std::vector<int> one_axis(k, 1);
  one_axis.front() = n;
  return one_axis;
}

/// Throws Mismatch on all ranks where one cuts the grid in another way: some would become members of groups that are none of theirs.
void compare(const std::string& cut, const ProcessGroup& group, std::source_location where) {
  const std::vector<std::uint64_t> all = all_gather(base::stable_hash(cut), group, {.where = where});
  const auto other = std::ranges::find_if(all, [&](std::uint64_t each) { return each != all.front(); });
  if (other == all.end()) return;
  throw Mismatch(fmt::format("rank {} gives other axes than rank 0, or has another grid", other - all.begin()),
                 {.operation = "Grid", .group = group.name(), .rank = group.rank(), .hint = fmt::format("this rank: {}", cut)});
}

}  // namespace

std::vector<int> Grid::choose_extents(int ranks, std::vector<int> extents, std::source_location where) {
  return with_place(where, [&] {
    if (ranks < 1) wrong(fmt::format("there is no grid of {} ranks", ranks));
    if (extents.empty()) wrong("a grid has at least one axis");
    std::int64_t given = 1;
    std::size_t open = 0;
    for (const int extent : extents) {
      if (extent < 0) wrong(fmt::format("an axis has {} cells", extent));
      if (extent == 0) ++open;
      else
        given = std::min<std::int64_t>(given * extent, std::int64_t{ranks} + 1);  // a product above the world's size is an error whatever its value
    }
    if (ranks % given != 0 || (open == 0 && given != ranks)) {
      wrong(fmt::format("{} ranks are not a grid of {}", ranks, fmt::join(extents, " x ")),
            "the number of cells must be the number of ranks; 0 lets unisono choose an axis");
    }
    const int left = static_cast<int>(ranks / given);
    const std::vector<int> chosen = balanced(left, open, divisors_of(left));
    auto next = chosen.begin();
    for (int& extent : extents) {
      if (extent == 0) extent = *next++;
    }
    return extents;
  });
}

Grid::Grid(std::vector<int> extents, const GridOptions& options)
    : group_(options.group ? *options.group : current_world(options.where)),
      extents_(choose_extents(group_.size(), std::move(extents), options.where)),
      periodic_(options.periodic) {
  if (periodic_.empty()) periodic_.resize(extents_.size(), false);
  if (periodic_.size() == extents_.size()) return;
  with_place(options.where,
             [&] { wrong(fmt::format("{} axes, and {} values that say whether they are periodic", extents_.size(), periodic_.size())); });
}

void Grid::check_axis(int axis) const {
  if (axis < 0 || static_cast<std::size_t>(axis) >= extents_.size()) wrong(fmt::format("there is no axis {} among {}", axis, extents_.size()));
}

bool Grid::is_periodic(int axis) const {
  check_axis(axis);
  return periodic_[static_cast<std::size_t>(axis)];
}

std::vector<int> Grid::coordinates() const { return coordinates_of(group_.rank()); }

std::vector<int> Grid::coordinates_of(Rank rank) const {
  const int in_group = rank.is_global() ? group_.rank_of(GlobalRank{rank.value()}).value_or(-1) : rank.value();
  if (in_group < 0 || in_group >= group_.size()) wrong(fmt::format("rank {} is not in the grid of {}", rank.value(), group_.size()));
  std::vector<int> coordinates(extents_.size());
  int left = in_group;
  for (std::size_t axis = extents_.size(); axis-- > 0; left /= extents_[axis]) coordinates[axis] = left % extents_[axis];
  return coordinates;
}

std::optional<int> Grid::rank_at(std::span<const int> coordinates) const {
  if (coordinates.size() != extents_.size()) wrong(fmt::format("{} coordinates for {} axes", coordinates.size(), extents_.size()));
  int rank = 0;
  for (std::size_t axis = 0; axis < extents_.size(); ++axis) {
    const int extent = extents_[axis];
    int at = coordinates[axis];
    if (periodic_[axis]) at = (at % extent + extent) % extent;
    if (at < 0 || at >= extent) return std::nullopt;
    rank = rank * extent + at;
  }
  return rank;
}

std::optional<int> Grid::neighbour(int axis, int distance) const {
  check_axis(axis);
  std::vector<int> at = coordinates();
  const auto a = static_cast<std::size_t>(axis);
  const std::int64_t moved = std::int64_t{at[a]} + distance;
  const int extent = extents_[a];
  if (!periodic_[a] && (moved < 0 || moved >= extent)) return std::nullopt;
  at[a] = static_cast<int>(moved % extent);
  return rank_at(at);
}

Grid Grid::along(std::span<const int> axes, std::source_location where) const {
  return with_place(where, [&] {
    std::vector<bool> goes_on(extents_.size(), false);
    for (const int axis : axes) {
      check_axis(axis);
      goes_on[static_cast<std::size_t>(axis)] = true;
    }
    const std::vector<int> at = coordinates();
    int color = 0;
    GridOptions options{.periodic = {}, .group = {}, .where = where};
    std::vector<int> extents;
    std::vector<std::size_t> numbers;
    for (std::size_t axis = 0; axis < extents_.size(); ++axis) {
      if (!goes_on[axis]) {
        color = color * extents_[axis] + at[axis];
        continue;
      }
      numbers.push_back(axis);
      extents.push_back(extents_[axis]);
      options.periodic.push_back(periodic_[axis]);
    }
    if (extents.empty()) wrong("a grid has at least one axis", "give those along which the part goes on");
    compare(fmt::format("axes {} of {}, periodic {}", fmt::join(numbers, ", "), fmt::join(extents_, " x "), fmt::join(periodic_, ", ")), group_,
            where);
    options.group = split_group(group_, color, group_.rank(), {.where = where});
    return Grid(std::move(extents), options);
  });
}

}  // namespace unisono
