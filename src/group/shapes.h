#pragma once

#include "base/environment.h"
#include "unisono/engine.h"

namespace unisono::group {

/// UNISONO_COMPARE=shapes: the ranks' shapes are compared as well as the number of elements, where those are the same on all ranks. InvalidArgument
/// for anything else than that.
bool wants_shapes(const base::Environment& environment);

/// Adds the shape to what the ranks must agree on. A call of blocks of different length is left as it is.
void add_shape(CollectiveCall& call);

}  // namespace unisono::group
