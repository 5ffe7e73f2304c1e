#pragma once

#include <memory>

#include "unisono/backend.h"

namespace unisono::backends {

/// A group of one: every collective is a copy, if anything. Messages cannot happen, since nobody sends to itself.
std::unique_ptr<Backend> make_serial(const BackendOptions& options);

}  // namespace unisono::backends
