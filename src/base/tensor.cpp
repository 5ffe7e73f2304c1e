#include <limits>

#include "unisono/error.h"
#include "unisono/failure.h"
#include "unisono/task.h"
#include "unisono/tensor.h"

namespace unisono {

std::string_view to_string(DType dtype) noexcept {
  static constexpr std::string_view names[] = {"boolean", "int8",    "int16",    "int32",   "int64",   "uint8",     "uint16",    "uint32",
                                               "uint64",  "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
  const auto index = static_cast<std::size_t>(dtype);
  return index < std::size(names) ? names[index] : "unknown";
}

std::string to_string(Device device) { return device.type == Device::Type::cpu ? "cpu" : "cuda:" + std::to_string(device.index); }

namespace detail {

std::uint16_t float_to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return sign | 0x7e00U;   // NaN
  if (magnitude >= 0x477ff000U) return sign | 0x7c00U;  // rounds to more than 65504
  if (magnitude < 0x38800000U) {                        // subnormal in binary16: the addition of 0.5 rounds
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

float half_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7fffU;
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13));
  if (magnitude >= 0x0400U) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
  const float value = static_cast<float>(magnitude) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

}  // namespace detail

TensorView::TensorView(void* data, DType dtype, std::span<const std::int64_t> shape, std::span<const std::int64_t> strides, Device device)
    : data_(data), numel_(1), dtype_(dtype), device_(device) {
  if (!strides.empty() && strides.size() != shape.size()) {
    throw InvalidArgument("a TensorView of " + std::to_string(shape.size()) + " dimensions was given " + std::to_string(strides.size()) + " strides");
  }
  line_ = shape.size() == 1 && (strides.empty() || strides[0] == 1);
  if (!line_) {
    dims_.reserve(2 * shape.size());
    dims_.assign(shape.begin(), shape.end());
    dims_.resize(2 * shape.size());
  }
  const auto limit = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(size_of(dtype));
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] < 0) throw InvalidArgument("a Tensor's extent is negative: " + std::to_string(shape[d]) + " in dimension " + std::to_string(d));
    if (!line_) dims_[shape.size() + d] = strides.empty() ? numel_ : strides[d];
    if (shape[d] != 0 && numel_ > limit / shape[d]) throw InvalidArgument("a TensorView has more bytes than 64 bits can count");
    numel_ *= shape[d];
  }
  if (data == nullptr && numel_ > 0) throw InvalidArgument("a TensorView of " + std::to_string(numel_) + " elements has no memory");
  std::int64_t expected = 1;
  for (std::size_t d = shape.size(); d-- > 0 && numel_ > 1 && !line_;) {
    if (shape[d] != 1 && dims_[shape.size() + d] != expected) contiguous_ = false;
    expected *= shape[d];
  }
}

std::span<const std::int64_t> TensorView::shape() const noexcept {
  if (line_) return {&numel_, 1};
  return {dims_.data(), dims_.size() / 2};
}

std::span<const std::int64_t> TensorView::strides() const noexcept {
  static constexpr std::int64_t one = 1;
  if (line_) return {&one, 1};
  return {dims_.data() + dims_.size() / 2, dims_.size() / 2};
}

Task::~Task() = default;
Waiter::~Waiter() = default;
GroupFailure::~GroupFailure() = default;

}  // namespace unisono
