#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "coordination/group_topology.h"
#include "schedule/abilities.h"
#include "schedule/schedule.h"

namespace unisono::schedule {

/// The engines and the topology on which a problem is to be solved.
struct Setting {
  Abilities engine;                                       ///< the engine of the problem's level
  Abilities rail{nullptr};                                ///< the engine of this rank's rail, where there are two levels
  const coordination::GroupTopology* topology = nullptr;  ///< set where the problem may be solved on two levels
};

/// A way to carry out an operation. A new algorithm is a file in src/schedule/algorithms/<operation>/ and a line in the table of selection.cpp.
/// selection.cpp.
struct Algorithm {
  Operation operation;
  std::string_view name;
  /// Returns true where the algorithm is correct and possible. All ranks must get the same answer.
  bool (*can)(const Problem& problem, const Setting& setting);
  void (*build)(const Problem& problem, const Setting& setting, Builder& to);
  std::size_t at_least_bytes = 0;               ///< preferred range, in bytes of `count` elements: the lower end
  std::size_t at_most_bytes = ~std::size_t{0};  ///< the upper end
  int at_least_ranks = 1;
};

/// Adds the steps of any collective by the algorithm that the table chooses. Returns its name.
std::string_view build(const Problem& problem, const Setting& setting, Builder& to);

namespace algorithms {

// Each of these is described in the file of its name.
bool can_engine(const Problem& problem, const Setting& setting);
void build_engine(const Problem& problem, const Setting& setting, Builder& to);
bool can_exchange(const Problem& problem, const Setting& setting);
void build_exchange(const Problem& problem, const Setting& setting, Builder& to);
bool can_all_to_all_v(const Problem& problem, const Setting& setting);
void build_all_to_all_v(const Problem& problem, const Setting& setting, Builder& to);
bool can_sum_and_divide(const Problem& problem, const Setting& setting);
void build_sum_and_divide(const Problem& problem, const Setting& setting, Builder& to);
bool can_two_level_all_reduce(const Problem& problem, const Setting& setting);
void build_two_level_all_reduce(const Problem& problem, const Setting& setting, Builder& to);
void build_all_reduce_everything(const Problem& problem, const Setting& setting, Builder& to);
void build_all_reduce_shares(const Problem& problem, const Setting& setting, Builder& to);
void build_reduce_shares(const Problem& problem, const Setting& setting, Builder& to);
void build_reduce_scatter_blocks(const Problem& problem, const Setting& setting, Builder& to);
void build_scan_shares(const Problem& problem, const Setting& setting, Builder& to);
bool can_two_level_broadcast(const Problem& problem, const Setting& setting);
void build_two_level_broadcast(const Problem& problem, const Setting& setting, Builder& to);
void build_broadcast_scatter_all_gather(const Problem& problem, const Setting& setting, Builder& to);

}  // namespace algorithms
}  // namespace unisono::schedule
