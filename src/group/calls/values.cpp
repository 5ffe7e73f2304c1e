#include "group/calls/values.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "kernels/pack.h"
#include "unisono/error.h"

namespace unisono::group {
namespace {

/// Looks at numbers of IEEE 754 as integers, which any address may hold. `Infinity`: the bits of the positive one; those of a NaN are larger.
template <class Bits, Bits Infinity>
Refused look_at(std::span<const std::byte> numbers, bool refuses_infinity) {
  constexpr Bits without_sign = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1U);
  const Bits largest = refuses_infinity ? static_cast<Bits>(Infinity - 1) : Infinity;
  const std::size_t count = numbers.size() / sizeof(Bits);
  const auto magnitude = [&](std::size_t i) {
    Bits bits{};
    std::memcpy(&bits, numbers.data() + i * sizeof(Bits), sizeof(Bits));
    return static_cast<Bits>(bits & without_sign);
  };
  Refused refused;
  for (std::size_t i = 0; i < count; ++i) refused.count += magnitude(i) > largest ? 1U : 0U;
  if (refused.count == 0) return refused;
  while (magnitude(refused.first) <= largest) ++refused.first;
  refused.is_nan = magnitude(refused.first) > Infinity;
  return refused;
}

Refused of_complex(Refused refused) {
  refused.first /= 2;
  return refused;
}

}  // namespace

RefusedValues refused_values(const base::Environment& environment) {
  const auto text = environment.get("UNISONO_CHECK");
  if (!text) return RefusedValues::none;
  if (*text == "nan") return RefusedValues::nan;
  if (*text == "finite") return RefusedValues::not_finite;
  throw InvalidArgument(fmt::format("UNISONO_CHECK is \"{}\"; it may be \"nan\" or \"finite\", or unset", *text));
}

Refused look_for(RefusedValues values, const TensorView& tensor) {
  if (values == RefusedValues::none || tensor.dtype() < DType::float16 || tensor.numel() == 0) return {};
  std::vector<std::byte> packed;
  if (!tensor.is_contiguous()) {
    packed.resize(tensor.bytes());
    kernels::pack(packed.data(), tensor);
  }
  const std::span numbers(packed.empty() ? static_cast<const std::byte*>(tensor.data()) : packed.data(), tensor.bytes());
  const bool refuses_infinity = values == RefusedValues::not_finite;
  switch (tensor.dtype()) {
    case DType::float16: return look_at<std::uint16_t, 0x7c00>(numbers, refuses_infinity);
    case DType::bfloat16: return look_at<std::uint16_t, 0x7f80>(numbers, refuses_infinity);
    case DType::float32: return look_at<std::uint32_t, 0x7f800000>(numbers, refuses_infinity);
    case DType::float64: return look_at<std::uint64_t, 0x7ff0000000000000>(numbers, refuses_infinity);
    case DType::complex64: return of_complex(look_at<std::uint32_t, 0x7f800000>(numbers, refuses_infinity));
    case DType::complex128: return of_complex(look_at<std::uint64_t, 0x7ff0000000000000>(numbers, refuses_infinity));
    default: return {};
  }
}

}  // namespace unisono::group
