#pragma once

#include <cstddef>
#include <type_traits>

#include "engines/nccl/api.h"

namespace declarations {

/// Whether a caller by the one declaration does what one by the other does: the same kinds and sizes of results and parameters, in the same order;
/// an enumeration is one of ours or of theirs, and so is a structure that both copy byte by byte.
template <class Ours, class Theirs>
constexpr bool same() {
  if constexpr (std::is_same_v<Ours, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using O = std::remove_pointer_t<Ours>;
    using T = std::remove_pointer_t<Theirs>;
    return std::is_const_v<O> == std::is_const_v<T> && same<std::remove_const_t<O>, std::remove_const_t<T>>();
  } else if constexpr (std::is_enum_v<Ours> && std::is_enum_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs);
  } else if constexpr (std::is_same_v<Ours, unisono::engines::nccl::Config> || std::is_same_v<Ours, unisono::engines::nccl::PointerAttributes>) {
    return std::is_class_v<Theirs> && std::is_standard_layout_v<Theirs>;  // their members are compared one by one
  } else if constexpr (std::is_class_v<Ours> && std::is_class_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs) && std::is_trivially_copyable_v<Ours> &&
           std::is_trivially_copyable_v<Theirs>;
  } else {
    return false;
  }
}

template <class Ours, class Theirs>
struct Shape : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct Shape<R (*)(A...), S (*)(B...)> : std::bool_constant<same<R, S>() && (same<A, B>() && ...)> {
};

template <class Ours, class Theirs>
inline constexpr bool same_shape = Shape<Ours, Theirs>::value;

}  // namespace declarations
