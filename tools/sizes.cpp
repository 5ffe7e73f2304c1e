#include "sizes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "unisono/error.h"

namespace unisono::tools {
namespace {

constexpr std::array size_units = {std::pair{"", 0},     std::pair{"B", 0},  std::pair{"KiB", 10}, std::pair{"K", 10},
                                   std::pair{"MiB", 20}, std::pair{"M", 20}, std::pair{"GiB", 30}, std::pair{"G", 30}};

}  // namespace

std::size_t parse_bytes(const std::string& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  for (const auto& [name, shift] : size_units) {
    if (error != std::errc{} || unit != name) continue;
    if (number == 0 || number > (std::numeric_limits<std::size_t>::max() >> 16 >> shift)) break;
    return number << shift;
  }
  throw InvalidArgument("'" + text + "' is no size", {.hint = "sizes look like 8, 1KiB, 64MiB"});
}

std::string format_bytes(std::size_t bytes) {
  for (const auto& [name, shift] : {std::pair{"GiB", 30}, std::pair{"MiB", 20}, std::pair{"KiB", 10}})
    if (bytes >> shift != 0 && (bytes & ((std::size_t{1} << shift) - 1)) == 0) return fmt::format("{} {}", bytes >> shift, name);
  return fmt::format("{} B", bytes);
}

}  // namespace unisono::tools
