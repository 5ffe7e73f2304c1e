#pragma once

#include <concepts>
#include <vector>

#include "unisono/tensor.h"

namespace unisono::detail {

template <class T>
inline constexpr bool is_growable = false;
template <class T, class A>
inline constexpr bool is_growable<std::vector<T, A>> = Element<T> && !std::same_as<T, bool>;

/// A vector of elements that a call may resize.
template <class T>
concept Growable = is_growable<T>;

}  // namespace unisono::detail
