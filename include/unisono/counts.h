#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include "unisono/detail/standard.h"

namespace unisono {

namespace detail {

template <class T>
concept count = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool>;

/// Any integer, in a list of them.
struct AnyCount {
  template <count T>
  constexpr AnyCount(T n) noexcept : value(static_cast<std::size_t>(n)) {}  // NOLINT(google-explicit-constructor)
  std::size_t value;
};

}  // namespace detail

/// How many elements the block of each rank has, in group order. Made from any range of integers or a list of them, which it copies; copies share
/// the numbers, so that an asynchronous call keeps them. A negative number is refused by the call that it is given to.
class Counts {
 public:
  Counts() = default;
  Counts(std::initializer_list<detail::AnyCount> counts) : Counts(counts.size()) {
    std::size_t i = 0;
    for (const detail::AnyCount& count : counts) numbers_[i++] = count.value;
  }
  template <std::ranges::input_range R>
  requires(!std::same_as<std::remove_cvref_t<R>, Counts> && detail::count<std::ranges::range_value_t<R>>)
      Counts(R&& counts) {  // NOLINT(google-explicit-constructor): a range stands for its numbers
    if constexpr (std::ranges::sized_range<R>) {
      *this = Counts(static_cast<std::size_t>(std::ranges::size(counts)));
      std::size_t i = 0;
      for (const auto count : counts) numbers_[i++] = static_cast<std::size_t>(count);
    } else {
      std::vector<std::size_t> numbers;
      for (const auto count : counts) numbers.push_back(static_cast<std::size_t>(count));
      *this = Counts(numbers);
    }
  }

  std::size_t size() const noexcept { return size_; }
  std::size_t operator[](std::size_t rank) const noexcept { return numbers_[static_cast<std::ptrdiff_t>(rank)]; }
  std::span<const std::size_t> span() const noexcept { return {numbers_.get(), size_}; }
  const std::size_t* begin() const noexcept { return numbers_.get(); }
  const std::size_t* end() const noexcept { return numbers_.get() + size_; }
  /// Their sum. Of counts that a backend is handed, it does not overflow.
  std::size_t total() const noexcept { return before(size_); }
  /// Where the block of a rank begins.
  std::size_t before(std::size_t rank) const noexcept {
    std::size_t sum = 0;
    for (std::size_t r = 0; r < rank; ++r) sum += numbers_[static_cast<std::ptrdiff_t>(r)];
    return sum;
  }

 private:
  // A size in parentheses, not a list of one count.
  explicit Counts(std::size_t size) : numbers_(size == 0 ? nullptr : new std::size_t[size]()), size_(size) {}

  std::shared_ptr<std::size_t[]> numbers_;
  std::size_t size_ = 0;
};

}  // namespace unisono
