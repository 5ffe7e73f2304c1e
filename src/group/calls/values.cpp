#include "group/calls/check.h"

#include <cstddef>
#include <cstring>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

namespace {

/// Keeps a text for as long as the process lives, since a call outlives its maker. There are as many texts as a program has shapes.
std::string_view kept(std::string text) {
  static std::mutex mutex;
  static auto& texts = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return *texts.insert(std::move(text)).first;
}

/// Returns the view whose shape is compared: of a call with parts and a whole, the part.
const TensorView& compared(const CollectiveCall& call) {
  return call.operation == Operation::scatter || call.operation == Operation::reduce_scatter ? call.out : call.in;
}

}  // namespace

bool wants_shapes(const base::Environment& environment) {
  const auto text = environment.get("UNISONO_COMPARE");
  if (!text) return false;
  if (*text != "shapes") throw InvalidArgument(fmt::format("UNISONO_COMPARE is \"{}\"; it may be \"shapes\", or unset", *text));
  return true;
}

void add_shape(CollectiveCall& call) {
  if (call.operation == Operation::barrier || has_counts(call.operation)) return;
  const std::string shape = fmt::format("[{}]", fmt::join(compared(call).shape(), ", "));
  if (call.label.empty()) call.label = to_string(call.operation);
  call.also = kept(call.also.empty() ? shape : fmt::format("{} {}", call.also, shape));
}

}  // namespace unisono::group
