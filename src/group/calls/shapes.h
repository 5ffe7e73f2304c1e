#pragma once

#include "base/environment.h"
#include "unisono/engine.h"

namespace unisono::group {

/// Returns true under UNISONO_COMPARE=shapes: the ranks compare shapes as well, in calls whose numbers of elements are the same on all ranks. Throws
/// InvalidArgument for any other value.
bool wants_shapes(const base::Environment& environment);

/// Adds the shape to the terms that the ranks must agree on. A call of blocks of different length is left as it is.
void add_shape(CollectiveCall& call);

}  // namespace unisono::group
