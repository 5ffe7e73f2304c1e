#pragma once

#include <optional>
#include <string_view>

#include "unisono/context.h"

namespace unisono::context {

/// Whether a handler of the program's own serves this init_method.
bool has_handler(std::string_view init_method);
/// What its handler has made of the request: a store, a rank, and a size. nullopt where there is no such handler.
std::optional<InitOptions> through_handler(const InitOptions& options);

}  // namespace unisono::context
