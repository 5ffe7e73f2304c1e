#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace unisono::tools {

/// JSON whose objects keep the order of their members.
using Json = nlohmann::ordered_json;

// `object[name] = value` for each kind of value. They are compiled once: where many such lines stand one by one, they take most of the compiler's
// time.
void put_text(Json& object, std::string_view name, std::string_view value);
void put_json(Json& object, std::string_view name, Json value);
void put_number(Json& object, std::string_view name, double value);
void put_number(Json& object, std::string_view name, std::int64_t value);
void put_number(Json& object, std::string_view name, std::uint64_t value);

/// Sets a member of the object.
template <class Value>
void put(Json& object, std::string_view name, Value&& value) {
  using Plain = std::remove_cvref_t<Value>;
  if constexpr (std::is_same_v<Plain, bool>) put_json(object, name, value);
  else if constexpr (std::is_floating_point_v<Plain>) put_number(object, name, static_cast<double>(value));
  else if constexpr (std::is_integral_v<Plain> && std::is_signed_v<Plain>) put_number(object, name, static_cast<std::int64_t>(value));
  else if constexpr (std::is_integral_v<Plain>) put_number(object, name, static_cast<std::uint64_t>(value));
  else if constexpr (!std::is_same_v<Plain, Json> && std::is_convertible_v<Value, std::string_view>) put_text(object, name, value);
  else put_json(object, name, std::forward<Value>(value));
}

}  // namespace unisono::tools
