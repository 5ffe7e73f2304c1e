#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "unisono/launcher.h"

namespace unisono::rendezvous {

/// The names that one launcher gives to the same things; empty: it does not say.
struct LauncherRow {
  Launcher launcher;
  std::array<std::string_view, 2> marks;  ///< all of them are set in its processes
  std::string_view rank, world_size, local_rank, local_world_size, node_rank;
};

/// In the order of trust.
std::span<const LauncherRow> launcher_rows();
bool applies(const LauncherRow& row, const base::Environment& environment);
/// The row says rank, world size and local rank. Only a launcher that started this very process does: what stands behind it is of an outer one.
bool is_complete(const LauncherRow& row, const base::Environment& environment);

/// Every variable that is read anywhere in the library: ours, then those of the launchers. UNISONO_TOKEN among them, whose value nobody prints.
std::vector<std::string_view> variables_read();

}  // namespace unisono::rendezvous
