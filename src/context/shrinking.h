#pragma once

#include <optional>
#include <string>
#include <vector>

#include "context/state.h"
#include "group/group.h"

namespace unisono::context {

/// The survivors of a failed group, as they have agreed on them.
struct Survivors {
  std::vector<int> ranks;  ///< in that group, in its order
  std::string key;         ///< for the group that they form
};

/// Lets the survivors of a failed group agree on who they are; all of them call. Returns nothing for a rank that the others have left out.
std::optional<Survivors> agree_on_survivors(State& state, group::Group& old);

/// Lets a launcher that replaces lost processes, and these themselves, know that the others go on without them. `members`: ranks in the world.
void tell_of_the_lost(const State& state, const group::Group& before, const std::vector<int>& members);

}  // namespace unisono::context
