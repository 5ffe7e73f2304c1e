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

/// A launcher's names for rank, size and the like; empty: it gives none.
struct LauncherRow {
  Launcher launcher;
  std::array<std::string_view, 2> marks;  ///< all of them are set in its processes
  std::string_view rank, world_size, local_rank, local_world_size, node_rank;
};

/// Returns the rows in the order of trust.
std::span<const LauncherRow> launcher_rows();
bool applies(const LauncherRow& row, const base::Environment& environment);
/// Returns true where the row gives rank, world size and local rank. Only a launcher that started this very process does; the rows behind it belong
/// to an outer one.
bool is_complete(const LauncherRow& row, const base::Environment& environment);

/// Returns every variable that the library reads: its own, then those of the launchers. The value of UNISONO_TOKEN among them is never printed.
std::vector<std::string_view> variables_read();

}  // namespace unisono::rendezvous
