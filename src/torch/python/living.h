#pragma once

#include <memory>
#include <string>

#include "unisono/membership.h"

namespace unisono::libtorch {

/// Registers the membership for `end_all` as long as it lives.
void note_living(const std::shared_ptr<Membership>& membership);

/// Ends this process's part in all groups that are left, the newest first: by Membership::abandon if `how` says how the process ended, else by
/// Membership::leave.
void end_all(const std::string& how);

}  // namespace unisono::libtorch
