#pragma once

#include <nlohmann/json.hpp>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace unisono::tools {

/// JSON whose objects keep the order of their members.
using Json = nlohmann::ordered_json;

/// Sets a member of the object. It is compiled once for all kinds of values: many lines of `object[name] = value` would take most of the compiler's
/// time.
inline void put(Json& object, std::string_view name, Json value) { object[std::string(name)] = std::move(value); }
/// Sets several members.
inline void put(Json& object, std::initializer_list<std::pair<std::string_view, Json>> members) {
  for (const auto& [name, value] : members) put(object, name, value);
}

}  // namespace unisono::tools
