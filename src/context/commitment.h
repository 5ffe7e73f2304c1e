#pragma once

#include <exception>
#include <functional>

#include "base/deadline.h"
#include "context/formation.h"

namespace unisono::context {

/// Lets the members of a group that has been formed either all have it, or none: a member that sees another die is not the only one to give it up.
///
/// Every member calls it once it has its part of the group. Returns when all have theirs. Throws on all members where one of them could not come:
/// what `explain` makes of the error that this member met, or PeerFailed with what another one has told.
void commit(Formation& formation, int size, const base::Deadline& deadline,
            const std::function<std::exception_ptr(const std::exception_ptr&)>& explain);

}  // namespace unisono::context
