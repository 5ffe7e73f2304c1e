#include "engines/choices.h"

#include <string>
#include <vector>

#include "base/hash.h"
#include "unisono/with_place.h"

namespace unisono {
namespace {

/// The smallest of each dtype, then the largest.
const std::vector<std::string>& names() {
  static const auto& all = *new auto([] {
    std::vector<std::string> list;
    for (const char* const which : {"smallest", "largest"}) {
      for (int type = 0; type <= static_cast<int>(DType::complex128); ++type)
        list.push_back(std::string("the ") + which + " with its place, " + std::string(to_string(static_cast<DType>(type))));
    }
    return list;
  }());
  return all;
}

}  // namespace

namespace detail {
std::string_view name_of_choice(DType dtype, bool largest) noexcept {
  return names()[static_cast<std::size_t>(dtype) + (largest ? names().size() / 2 : 0)];
}
}  // namespace detail

namespace engines {
std::string_view choice_of_hash(std::uint32_t hash) {
  for (const std::string& name : names()) {
    if (static_cast<std::uint32_t>(base::stable_hash(name)) == hash) return name;
  }
  return {};
}
}  // namespace engines

}  // namespace unisono
