#pragma once

#include <complex>
#include <concepts>
#include <type_traits>

#include "unisono/tensor.h"

// Overloads that catch what no collective takes, to say so in a sentence instead of a page of candidates.

namespace unisono::detail {

template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<std::complex<T>> = true;

template <class X>
concept value = Element<std::remove_cvref_t<X>>;

template <class X>
constexpr void refuse_as_buffer() {
  using Plain = std::remove_cvref_t<X>;
  static_assert(
      !is_vector_bool<Plain>,
      "unisono: a std::vector<bool> is no buffer, its elements have no addresses; use std::vector<unsigned char> or std::unique_ptr<bool[]>");
  static_assert(!is_string<Plain>,
                "unisono: a std::string is an object, never a buffer; use the object collectives, or a std::span of its characters");
  static_assert(
      is_vector_bool<Plain> || is_string<Plain> || has_view<Plain>,
      "unisono: this type is neither a buffer (a contiguous range of elements, a Tensor, or a type with unisono::buffer_traits) nor a value "
      "(one element)");
  static_assert(!has_view<Plain> || is_vector_bool<Plain>,
                "unisono: this buffer cannot be written to: give an lvalue that is not const, or a view of such elements");
}

template <class X>
constexpr void refuse_as_value() {
  static_assert(!has_view<X>, "unisono: a buffer stands where a value is meant: this form takes one element; give an output buffer, too");
  static_assert(has_view<X>, "unisono: this type is no value: a value is one element of a DType");
}

template <class X>
constexpr void refuse_as_growable() {
  static_assert(!has_view<X>,
                "unisono: without counts the output is sized by the call, which only a std::vector of elements can be: give one, or the counts");
}

}  // namespace unisono::detail
