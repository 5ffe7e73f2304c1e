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

/// An integer type that can be a number of elements.
template <class T>
concept count = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool>;

/// An integer of any type in a list of counts, which may mix them.
struct AnyCount {
  template <count T>
  constexpr AnyCount(T n) noexcept : value(static_cast<std::size_t>(n)) {}  // NOLINT(google-explicit-constructor)
  std::size_t value;
};

}  // namespace detail

/// The number of elements that the block of each rank has, in group order.
///
/// A Counts is made from a range of integers or a list of them: `{3, 0, 5}`, a std::vector<int>, a
/// view. It copies the numbers; copies of a Counts share them, so that an asynchronous call keeps
/// them as long as it needs. A negative number is accepted here and refused, as InvalidArgument, by
/// the call that is given it.
class Counts {
 public:
  /// Makes counts of no ranks.
  Counts() = default;
  /// Takes the counts in braces.
  Counts(std::initializer_list<detail::AnyCount> counts) : Counts(counts.size()) {
    std::size_t i = 0;
    for (const detail::AnyCount& count : counts) numbers_.get()[i++] = count.value;
  }
  /// Takes the counts from a range of integers, which is gone through once.
  template <std::ranges::input_range R>
  requires(!std::same_as<std::remove_cvref_t<R>, Counts> && detail::count<std::ranges::range_value_t<R>>)
      Counts(R&& counts) {  // NOLINT(google-explicit-constructor): a range stands for its numbers
    if constexpr (std::ranges::sized_range<R>) {
      *this = Counts(static_cast<std::size_t>(std::ranges::size(counts)));
      std::size_t i = 0;
      for (const auto count : counts) numbers_.get()[i++] = static_cast<std::size_t>(count);
    } else {
      std::vector<std::size_t> numbers;
      for (const auto count : counts) numbers.push_back(static_cast<std::size_t>(count));
      *this = Counts(numbers);
    }
  }

  /// Returns the same counts without keeping them: they are valid as long as a copy of this object
  /// lives, which suffices a call that is over before that.
  Counts borrowed() const noexcept {
    Counts counts;
    counts.numbers_ = std::shared_ptr<std::size_t[]>(std::shared_ptr<void>(), numbers_.get());
    counts.size_ = size_;
    return counts;
  }

  /// Returns the number of ranks.
  std::size_t size() const noexcept { return size_; }
  /// Returns the count of a rank, which must be less than size().
  std::size_t operator[](std::size_t rank) const noexcept { return numbers_[static_cast<std::ptrdiff_t>(rank)]; }
  /// Returns a view of the counts, valid as long as a copy of this object lives.
  std::span<const std::size_t> span() const noexcept { return {numbers_.get(), size_}; }
  /// Iterates over the counts in group order.
  const std::size_t* begin() const noexcept { return numbers_.get(); }
  const std::size_t* end() const noexcept { return numbers_.get() + size_; }
  /// Returns the sum of all counts. Counts that an engine is given do not overflow.
  std::size_t total() const noexcept { return before(size_); }
  /// Returns the place where the block of a rank begins: the sum of the counts of the ranks before
  /// it.
  std::size_t before(std::size_t rank) const noexcept {
    std::size_t sum = 0;
    for (std::size_t r = 0; r < rank; ++r) sum += numbers_[static_cast<std::ptrdiff_t>(r)];
    return sum;
  }

 private:
  // A size in parentheses, not a list of one count.
  explicit Counts(std::size_t size) : numbers_(size == 0 ? nullptr : std::make_shared<std::size_t[]>(size)), size_(size) {}

  std::shared_ptr<std::size_t[]> numbers_;
  std::size_t size_ = 0;
};

}  // namespace unisono
