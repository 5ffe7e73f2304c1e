#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "group/composed.h"

namespace unisono::objects {

/// What every rank says before anything is moved: a line of numbers, and whether it has failed already. Since all ranks have all lines, all come to
/// the same error.
class Lines {
 public:
  Lines(group::Composed& call, std::initializer_list<std::uint64_t> own, const std::exception_ptr& error);

  std::uint64_t of(int rank, std::size_t item) const { return numbers_[static_cast<std::size_t>(rank) * items_ + item]; }
  std::uint64_t mine(std::size_t item) const { return of(call_.group().rank(), item); }
  template <class F>
  std::optional<int> first(F&& holds) const {
    for (int r = 0; r < call_.group().size(); ++r) {
      if (holds(r)) return r;
    }
    return std::nullopt;
  }
  /// Who differs from whom in an item; nothing where all ranks have the same.
  std::optional<group::Difference> difference_in(std::size_t item) const;
  /// The beginning of what a rank has to say. Every rank calls.
  std::string text_from(int rank, std::string_view own) const;
  /// Of items that say how many bytes an object has, and how many it may have: InvalidArgument where one has more than any rank takes.
  void nothing_too_large(std::size_t bytes, std::size_t limit) const;
  /// Where a rank has failed, it throws its own error, and the others InvalidArgument.
  void nobody_failed() const;

 private:
  group::Composed& call_;
  std::exception_ptr error_;
  std::size_t items_;
  std::vector<std::uint64_t> numbers_;
};

}  // namespace unisono::objects
