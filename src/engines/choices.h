#pragma once

#include <cstdint>
#include <string_view>

namespace unisono::engines {

/// Returns the name of the operation on values with their places that has this hash, "the smallest with its place, float32"; empty if none has.
std::string_view choice_of_hash(std::uint32_t hash);

}  // namespace unisono::engines
