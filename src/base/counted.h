#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace unisono::base {

/// Returns "1 rank", "2 ranks".
inline std::string counted(std::size_t number, std::string_view what) {
  return std::to_string(number) + " " + std::string(what) + (number == 1 ? "" : "s");
}

}  // namespace unisono::base
