#include "unisono/torch/tensor.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono {
namespace {

[[noreturn]] void refuse(const at::Tensor& tensor, std::string_view what, std::string_view hint) {
  throw InvalidArgument(fmt::format("a tensor of shape {} {}", c10::str(tensor.sizes()), what), {.hint = std::string(hint)});
}

}  // namespace

DType dtype_of_torch(at::ScalarType type) {
  switch (type) {
    case at::kBool: return DType::boolean;
    case at::kChar: return DType::int8;
    case at::kShort: return DType::int16;
    case at::kInt: return DType::int32;
    case at::kLong: return DType::int64;
    case at::kByte: return DType::uint8;
    case at::kUInt16: return DType::uint16;
    case at::kUInt32: return DType::uint32;
    case at::kUInt64: return DType::uint64;
    case at::kHalf: return DType::float16;
    case at::kBFloat16: return DType::bfloat16;
    case at::kFloat: return DType::float32;
    case at::kDouble: return DType::float64;
    case at::kComplexFloat: return DType::complex64;
    case at::kComplexDouble: return DType::complex128;
    default:
      throw InvalidArgument(fmt::format("a tensor of dtype {} cannot be communicated", c10::toString(type)),
                            {.hint = "convert it, or send its bytes: view(torch::kByte)"});
  }
}

at::ScalarType torch_dtype(DType dtype) {
  switch (dtype) {
    case DType::boolean: return at::kBool;
    case DType::int8: return at::kChar;
    case DType::int16: return at::kShort;
    case DType::int32: return at::kInt;
    case DType::int64: return at::kLong;
    case DType::uint8: return at::kByte;
    case DType::uint16: return at::kUInt16;
    case DType::uint32: return at::kUInt32;
    case DType::uint64: return at::kUInt64;
    case DType::float16: return at::kHalf;
    case DType::bfloat16: return at::kBFloat16;
    case DType::float32: return at::kFloat;
    case DType::float64: return at::kDouble;
    case DType::complex64: return at::kComplexFloat;
    case DType::complex128: return at::kComplexDouble;
  }
  throw InvalidArgument("no such dtype");
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
