#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/detail/object_concept.h"
#include "unisono/export.h"

namespace unisono::detail {

/// Spells out what a type consists of. The text is the same with every compiler, since it names the
/// structure and not what a compiler calls the type.
class TypeName {
 public:
  /// Appends a text.
  TypeName& operator<<(std::string_view text) {
    text_ += text;
    return *this;
  }
  /// Appends a number.
  TypeName& operator<<(std::size_t n) {
    text_ += std::to_string(n);
    return *this;
  }
  /// Appends the name of T.
  template <class T>
  void add() {
    codec<T>::name(*this);
  }
  /// Appends the names of several types.
  template <class First, class... Rest>
  void add_list() {
    add<First>();
    ((*this << ", ", add<Rest>()), ...);
  }
  /// Appends the name of a type that may contain itself. Within itself such a type is written as a
  /// number: how many such types further out it began.
  template <class T, class F>
  void nest(F&& contents) {
    const void* const self = &identity<T>;
    for (std::size_t outwards = 0; outwards < open_.size(); ++outwards) {
      if (open_[open_.size() - 1 - outwards] != self) continue;
      *this << "^" << outwards;
      return;
    }
    open_.push_back(self);
    contents();
    open_.pop_back();
  }
  /// Returns the text.
  std::string take() { return std::move(text_); }

 private:
  template <class T>
  static constexpr char identity = 0;

  std::string text_;
  std::vector<const void*> open_;
};

/// The type that ranks compare before an object is read.
struct ObjectType {
  std::string name;
  std::uint64_t fingerprint;
};

/// Returns the hash of a type's name.
UNISONO_API std::uint64_t fingerprint_of(std::string_view name) noexcept;

/// Throws Mismatch unless both are the same.
UNISONO_API void check_fingerprint(const ObjectType& type, std::uint64_t found);

/// Returns the name and fingerprint of O, which are made once.
template <object O>
const ObjectType& object_type() {
  static const ObjectType& type = *new const ObjectType([] {
    TypeName name;
    name.add<O>();
    std::string text = name.take();
    const std::uint64_t fingerprint = fingerprint_of(text);
    return ObjectType{std::move(text), fingerprint};
  }());
  return type;
}

}  // namespace unisono::detail
