#include "store/waiting.h"

#include <fmt/format.h>

#include "store/table.h"
#include "unisono/error.h"

namespace unisono::store {

void throw_missing(std::string_view place, std::span<const std::string> missing, std::chrono::milliseconds timeout) {
  constexpr std::size_t most = 16;
  std::string names;
  for (const std::string& key : missing.first(std::min(most, missing.size()))) {
    if (!names.empty()) names += ", ";
    names += '"' + printable(key) + '"';
  }
  if (missing.size() > most) names += fmt::format(" and {} more", missing.size() - most);
  throw Timeout(fmt::format("{}: no value for {} within {} ms", place, names, timeout.count()));
}

}  // namespace unisono::store
