#pragma once

namespace unisono::base {

/// Returns how many processors this process may use: the affinity mask and the control group's quota, at least 1.
int allowed_processors();

}  // namespace unisono::base
