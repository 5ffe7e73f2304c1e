#pragma once

#include <memory>
#include <string>

#include "unisono/membership.h"

namespace unisono::libtorch {

/// From now on `end_all` knows the membership, as long as it lives.
void note_living(const std::shared_ptr<Membership>& membership);

/// Ends this process's part in all groups that are left, the newest first: with `how` it ended, as Membership::abandon, else as Membership::leave.
void end_all(const std::string& how);

}  // namespace unisono::libtorch
