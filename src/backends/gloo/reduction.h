#pragma once

#include <gloo/context.h>

#include <memory>

#include "unisono/backend.h"

namespace unisono::backends {

/// Whether Gloo's ring gives the result that is promised: partial results go round in the dtype itself, so that halves of more than two ranks would
/// be rounded more than once, and an average of integers needs more room than they have.
bool can_combine(const CollectiveCall& call, int size);

void all_reduce_on(const std::shared_ptr<gloo::Context>& context, const CollectiveCall& call);
void reduce_on(const std::shared_ptr<gloo::Context>& context, const CollectiveCall& call);

/// A collective of one rank, whatever it is.
void copy_alone(const CollectiveCall& call);

}  // namespace unisono::backends
