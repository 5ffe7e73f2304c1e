#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "unisono/detail/object_bytes.h"

// Types of a user's.

struct Point {
  float x = 0, y = 0;
  bool operator==(const Point&) const = default;
  UNISONO_FIELDS(x, y)
};

enum class Shade : std::uint8_t { light, dark = 200 };

template <class T>
struct Pair {
  T first{};
  std::vector<T> rest;
  bool operator==(const Pair&) const = default;
  UNISONO_FIELDS(first, rest);
};

struct Everything {
  std::map<std::string, std::vector<Point>> names;
  int grid[2][3] = {};
  std::string labels[2];
  std::optional<Pair<std::string>> child;
  Shade shade = Shade::dark;
  bool operator==(const Everything&) const = default;
  UNISONO_FIELDS(names, grid, labels, child, shade)
};

struct Nothing {
  bool operator==(const Nothing&) const = default;
  UNISONO_FIELDS()
};

class Base {
 public:
  Base() = default;
  Base(int id, std::string name) : id_(id), name_(std::move(name)) {}
  bool operator==(const Base&) const = default;

 protected:
  int id_ = 0;
  std::string name_;
};
class Derived : public Base {
 public:
  Derived() = default;
  Derived(int id, std::string name, double weight) : Base(id, std::move(name)), weight_(weight) {}
  bool operator==(const Derived&) const = default;
  UNISONO_FIELDS(id_, name_, weight_)

 private:
  double weight_ = 0;
};

struct Wide {
  int a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, i = 0, j = 0, k = 0, l = 0, m = 0, n = 0, o = 0, p = 0, q = 0, r = 0, s = 0, t = 0;
  bool operator==(const Wide&) const = default;
  static Wide counted() { return {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}; }
  UNISONO_FIELDS(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
};

struct Tree {
  int value = 0;
  std::vector<Tree> children;
  bool operator==(const Tree&) const = default;
  UNISONO_FIELDS(value, children)
};

/// Without a default constructor.
class Celsius {
 public:
  static Celsius at(double degrees) { return Celsius(degrees); }
  double degrees() const { return degrees_; }
  bool operator==(const Celsius&) const = default;

 private:
  explicit Celsius(double degrees) : degrees_(degrees) {}
  double degrees_;
};
template <>
struct unisono::object_traits<Celsius> {
  static constexpr std::string_view name = "Celsius";
  static void write(ObjectWriter& out, const Celsius& x) { out.write(x.degrees()); }
  static Celsius read(ObjectReader& in) { return Celsius::at(in.read<double>()); }
};

/// As many values as there are lines.
struct Log {
  std::vector<std::string> lines;
  int level = 0;
  bool operator==(const Log&) const = default;
};
template <>
struct unisono::object_traits<Log> {
  static void write(ObjectWriter& out, const Log& x) {
    out.write(static_cast<unsigned>(x.lines.size()));
    for (const auto& line : x.lines) out.write(line);
    out.write(x.level);
  }
  static Log read(ObjectReader& in) {
    Log x;
    const auto n = in.read<unsigned>();
    for (unsigned i = 0; i < n; ++i) x.lines.push_back(in.read<std::string>());
    x.level = in.read<int>();
    return x;
  }
};

/// Remembers the most that was ever asked of it at once.
inline std::size_t most_allocated = 0;
template <class T>
struct OwnAllocator {
  using value_type = T;
  OwnAllocator() = default;
  template <class U>
  OwnAllocator(const OwnAllocator<U>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(std::size_t n) {
    most_allocated = std::max(most_allocated, n * sizeof(T));
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, std::size_t n) { std::allocator<T>().deallocate(p, n); }
  friend bool operator==(OwnAllocator, OwnAllocator) { return true; }
};
