#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "unisono/detail/floating_point.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"

namespace unisono::detail {

/// A callable without its type: it combines n elements by accumulator[i] = f(accumulator[i],
/// element[i]).
struct CustomReduction {
  std::function<void(void* accumulator, const void* elements, std::size_t n)> apply;
  /// The name of a callable of the library, which is all that the ranks compare. Empty for a program's.
  std::string_view name = {};
  /// A number of the code that a program's callable runs; see number_of_code.
  std::uint64_t code = 0;
  /// A number of what it has captured: 0 for nothing, std::nullopt if that cannot be compared.
  std::optional<std::uint64_t> captured = 0;
  /// The place in the program's source.
  std::source_location where = {};
  /// The words of errors for a callable without such a place.
  std::string_view description = {};

  /// Calls `apply` in the floating-point environment in which all ranks compute.
  void combine(void* accumulator, const void* elements, std::size_t n) const {
    const FixedFloatingPoint fixed;
    apply(accumulator, elements, n);
  }
};

/// Returns a number of the code at an address. Processes get the same one if they have loaded the
/// same file and the code lies at the same place in it.
UNISONO_API std::uint64_t number_of_code(const void* address) noexcept;

/// Returns a number of these bytes, which is never 0.
UNISONO_API std::uint64_t number_of_bytes(const void* bytes, std::size_t n) noexcept;

/// Combines n elements.
template <class T, class F>
void apply_each(const F& f, void* accumulator, const void* elements, std::size_t n) {
  T* a = static_cast<T*>(accumulator);
  const T* e = static_cast<const T*>(elements);
  for (std::size_t i = 0; i < n; ++i) a[i] = f(a[i], e[i]);
}

/// Finds out what the ranks compare of a callable.
template <class T, class F>
void identify(const F& f, CustomReduction& reduction) {
  if constexpr (std::is_pointer_v<F>) {
    reduction.code = number_of_code(reinterpret_cast<const void*>(f));
  } else {
    static const std::uint64_t code = number_of_code(reinterpret_cast<const void*>(&apply_each<T, F>));
    reduction.code = code;
    if constexpr (!std::is_empty_v<F>) reduction.captured = std::nullopt;
    if constexpr (!std::is_empty_v<F> && std::is_trivially_copyable_v<F>) reduction.captured = number_of_bytes(&f, sizeof f);
  }
}

/// Finds out what the ranks compare of a std::function.
template <class T, class R, class... Args>
void identify([[maybe_unused]] const std::function<R(Args...)>& f, CustomReduction& reduction) {
  reduction.captured = std::nullopt;
#ifdef __cpp_rtti
  if (const auto* const pointer = f.template target<R (*)(Args...)>()) {
    reduction.captured = 0;
    reduction.code = number_of_code(reinterpret_cast<const void*>(*pointer));
  } else {
    const std::string_view type = f.target_type().name();
    reduction.code = number_of_bytes(type.data(), type.size());
  }
#endif
}

/// Makes a reduction of a program's callable.
template <class T, class F>
std::shared_ptr<const CustomReduction> reduction_by(F f, std::source_location where) {
  CustomReduction reduction;
  identify<T>(f, reduction);
  reduction.where = where;
  reduction.apply = [f = std::move(f)](void* accumulator, const void* elements, std::size_t n) { apply_each<T>(f, accumulator, elements, n); };
  return std::make_shared<const CustomReduction>(std::move(reduction));
}

}  // namespace unisono::detail
