#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "group/calls/composed.h"

namespace unisono::objects {

/// The lines that all ranks exchange before anything is moved: some numbers each, and whether the rank has failed already. All ranks have all lines,
/// so all come to the same error.
class Lines {
 public:
  Lines(group::Composed& call, std::vector<std::uint64_t> own, const std::exception_ptr& error);

  std::uint64_t of(int rank, std::size_t item) const { return numbers_[static_cast<std::size_t>(rank) * items_ + item]; }
  std::uint64_t mine(std::size_t item) const { return of(call_.group().rank(), item); }
  template <class F>
  std::optional<int> first(F&& holds) const {
    for (int r = 0; r < call_.group().size(); ++r) {
      if (holds(r)) return r;
    }
    return std::nullopt;
  }
  /// Returns which ranks differ in an item; nothing where all ranks have the same.
  std::optional<group::Difference> difference_in(std::size_t item) const;
  /// Returns the beginning of a rank's text. Every rank calls it.
  std::string text_from(int rank, std::string_view own) const;
  /// Takes the items with an object's size and its limit in bytes. Throws InvalidArgument where an object is larger than any rank's limit.
  void nothing_too_large(std::size_t bytes, std::size_t limit) const;
  /// Throws where a rank has failed: that rank its own error, the others InvalidArgument.
  void nobody_failed() const;

 private:
  group::Composed& call_;
  std::exception_ptr error_;
  std::size_t items_;
  std::vector<std::uint64_t> numbers_;
};

}  // namespace unisono::objects
