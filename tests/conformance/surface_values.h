#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/unisono.h"

// The values that the ranks of the tests of the surface give.
namespace surface {

using unisono::world_size;

using Floats = std::vector<float>;

struct Point {
  int x = 0;
  std::string name;
  UNISONO_FIELDS(x, name);
  friend bool operator==(const Point&, const Point&) = default;
};
enum class Colour : std::uint8_t { red = 3, blue = 7 };

inline int n() { return world_size(); }
inline std::size_t ranks() { return static_cast<std::size_t>(world_size()); }
inline int last() { return n() - 1; }
/// 1 + 2 + … + n.
inline int triangle() { return n() * (n() + 1) / 2; }
/// The numbers of all ranks: f(0), f(1), …
template <class F>
auto of_each_rank(F&& f) {
  std::vector<decltype(f(0))> all;
  for (int r = 0; r < n(); ++r) all.push_back(f(r));
  return all;
}
inline float number(int r) { return static_cast<float>(r + 1); }

}  // namespace surface
