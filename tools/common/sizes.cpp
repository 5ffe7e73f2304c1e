#include "common/sizes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "unisono/error.h"

namespace unisono::tools {
namespace {

constexpr std::array size_units = {std::pair{"", 0},     std::pair{"b", 0},  std::pair{"kib", 10}, std::pair{"k", 10},
                                   std::pair{"mib", 20}, std::pair{"m", 20}, std::pair{"gib", 30}, std::pair{"g", 30}};

/// Other benchmarks take 64k and 64K alike.
std::string in_lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

std::size_t parse_bytes(const std::string& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit = in_lower_case(std::string(end, text.data() + text.size()));
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
