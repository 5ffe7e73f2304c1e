#include "unisono/torch/tensor.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "unisono/error.h"

namespace unisono {
namespace {

/// Torch's type of each DType, and the DType of each of torch's types.
constexpr std::array torch_types{at::kBool,   at::kChar, at::kShort,    at::kInt,   at::kLong,   at::kByte,         at::kUInt16,       at::kUInt32,
                                 at::kUInt64, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};
constexpr auto dtypes = [] {
  std::array<std::int8_t, static_cast<std::size_t>(at::ScalarType::NumOptions)> numbers{};
  numbers.fill(-1);
  for (std::size_t i = 0; i < torch_types.size(); ++i) numbers[static_cast<std::size_t>(torch_types[i])] = static_cast<std::int8_t>(i);
  return numbers;
}();

[[noreturn]] void refuse(const at::Tensor& tensor, std::string_view what, std::string_view hint) {
  throw InvalidArgument(fmt::format("a tensor of shape {} {}", c10::str(tensor.sizes()), what), {.hint = std::string(hint)});
}

}  // namespace

DType dtype_of_torch(at::ScalarType type) {
  const auto index = static_cast<std::size_t>(type);
  if (index < dtypes.size() && dtypes[index] >= 0) [[likely]]
    return static_cast<DType>(dtypes[index]);
  throw InvalidArgument(fmt::format("a tensor of dtype {} cannot be communicated", c10::toString(type)),
                        {.hint = "convert it, or send its bytes: view(torch::kByte)"});
}

at::ScalarType torch_dtype(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  if (index >= torch_types.size()) throw InvalidArgument("no such dtype");
  return torch_types[index];
}

Device device_of_torch(const at::Device& device) {
  if (device.is_cpu()) return {};
  if (!device.is_cuda()) {
    throw InvalidArgument(fmt::format("tensors on {} cannot be communicated", device.str()), {.hint = "move it to the cpu, or to a CUDA device"});
  }
  return {Device::Type::cuda, device.has_index() ? device.index() : 0};
}

at::Device torch_device(Device device) {
  if (device.type == Device::Type::cpu) return at::kCPU;
  return {at::kCUDA, static_cast<at::DeviceIndex>(device.index)};
}

TensorView detail::view_of_torch(const at::Tensor& tensor) {
  if (!tensor.defined()) throw InvalidArgument("an undefined tensor has no elements", {.hint = "has the gradient, or the tensor, been computed?"});
  if (tensor.is_nested()) throw InvalidArgument("a nested tensor cannot be communicated", {.hint = "communicate its parts: unbind()"});
  if (tensor.layout() != at::kStrided) refuse(tensor, "is sparse", "communicate its values and its indices");
  const DType dtype = dtype_of_torch(tensor.scalar_type());
  const Device device = device_of_torch(tensor.device());
  if (tensor.is_conj()) refuse(tensor, "is a lazy conjugate", "resolve_conj() makes it one with elements of its own");
  if (tensor.is_neg()) refuse(tensor, "is a lazy negative", "resolve_neg() makes it one with elements of its own");
  if (!tensor.has_storage()) refuse(tensor, "has no storage", "tensors inside a function transform cannot be communicated");
  void* const data = tensor.data_ptr();
  if (data == nullptr && tensor.numel() > 0) {
    refuse(tensor, "has no memory", "its storage was freed, or it only stands for zeros; clone() of the latter has elements");
  }
  if (tensor.is_contiguous() && device.type == Device::Type::cpu && tensor.dim() == 1) return {data, dtype, static_cast<std::size_t>(tensor.numel())};
  return {data, dtype, std::span(tensor.sizes().data(), tensor.sizes().size()), std::span(tensor.strides().data(), tensor.strides().size()), device};
}

void buffer_traits<at::Tensor>::written(at::Tensor& tensor) {
  if (tensor.defined() && !tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace unisono
