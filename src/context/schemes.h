#pragma once

#include <optional>
#include <string_view>

#include "unisono/context.h"

namespace unisono::context {

/// Tells whether the program has registered a handler for this init_method.
bool has_handler(std::string_view init_method);
/// Calls the program's handler, which turns the request into a store, a rank and a size. Returns nullopt where there is no handler.
std::optional<InitOptions> through_handler(const InitOptions& options);

}  // namespace unisono::context
