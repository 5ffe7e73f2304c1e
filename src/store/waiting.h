#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

namespace unisono::store {

/// Throws Timeout: "<place>: no value for "a", "b" within 500 ms".
[[noreturn]] void throw_missing(std::string_view place, std::span<const std::string> missing, std::chrono::milliseconds timeout);

}  // namespace unisono::store
