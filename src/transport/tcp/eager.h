#pragma once

#include <cstddef>

#include "base/environment.h"

namespace unisono::transport {

/// Returns UNISONO_MAX_EAGER_CONNECTIONS, or what holds where it is unset (Link::Options::most_eager). Throws InvalidArgument where it is no number.
std::size_t most_eager_connections(const base::Environment& environment);

}  // namespace unisono::transport
