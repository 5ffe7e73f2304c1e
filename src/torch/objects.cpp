#include "unisono/torch/objects.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "torch/remote/passing.h"
#include "torch/remote/session.h"
#include "unisono/error.h"
#include "unisono/torch/tensor.h"

// A tensor is written as the name of its dtype (empty if it is undefined), its shape, and its elements. The elements are a block of their DType, or
// plain bytes of a dtype that has none. A tensor on a worker is written as its place there.

namespace unisono {
namespace {

constexpr std::string_view remote_name = "remote";

struct Kind {
  at::ScalarType type;
  std::optional<DType> dtype;
};

/// Returns the kind of a type that can be sent: the DTypes, and other types of whole bytes whose bits are their value.
std::optional<Kind> kind_of(at::ScalarType type) {
  const std::string_view name = c10::toString(type);
  if (type == at::kComplexHalf || name.starts_with("Float8_")) return Kind{type, std::nullopt};
  try {
    return Kind{type, dtype_of_torch(type)};
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

/// Finds a type by its name in the message, which is the same in every version of PyTorch.
std::optional<Kind> kind_named(std::string_view name) {
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
    const auto type = static_cast<at::ScalarType>(i);
    if (type != at::ScalarType::Undefined && name == c10::toString(type)) return kind_of(type);
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const at::Tensor& tensor, std::string_view what, std::string_view hint) {
  throw InvalidArgument(fmt::format("a tensor of shape {} {}", c10::str(tensor.sizes()), what), {.hint = std::string(hint)});
}

/// Returns the elements on the cpu, row by row.
at::Tensor packed(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  at::Tensor own = tensor.detach();
  if (own.is_conj()) own = own.resolve_conj();
  if (own.is_neg()) own = own.resolve_neg();
  return own.to(at::kCPU).contiguous();
}

/// Returns the number of elements of this shape; nullopt for a shape that no tensor can have.
std::optional<std::int64_t> numel_of(std::span<const std::int64_t> shape, std::size_t element) {
  std::int64_t all = static_cast<std::int64_t>(element), numel = 1;  // all: bytes, an extent of 0 counting as 1, as for strides
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(all, std::max<std::int64_t>(extent, 1), &all)) return std::nullopt;
    numel *= extent;
  }
  return numel;
}

}  // namespace

void object_traits<at::Tensor>::write(ObjectWriter& out, const at::Tensor& tensor) {
  if (!tensor.defined()) return out.string("");
  if (libtorch::is_remote(tensor)) {
    out.string(remote_name);
    return out.bytes(libtorch::described_for_worker(tensor));
  }
  if (tensor.is_quantized()) refuse(tensor, "is quantized", "dequantize() it, or send its int_repr() and its scales");
  if (tensor.is_nested()) throw InvalidArgument("a nested tensor cannot be sent", {.hint = "send its parts: unbind()"});
  if (tensor.layout() != at::kStrided) refuse(tensor, "is sparse", "send its values and its indices");
  if (tensor.is_meta() || !tensor.has_storage())
    refuse(tensor, "has no elements", "tensors of the meta device and of function transforms are shapes only");
  const auto kind = kind_of(tensor.scalar_type());
  if (!kind) refuse(tensor, fmt::format("is of dtype {}, which cannot be sent", c10::toString(tensor.scalar_type())), "convert it");
  const at::Tensor own = packed(tensor);
  out.string(c10::toString(kind->type));
  out.write(own.sizes().vec());
  const auto count = static_cast<std::size_t>(own.numel());
  const void* const elements = own.const_data_ptr();
  if (elements == nullptr && count > 0) refuse(tensor, "has no elements", "it is only a shape; clone() of a tensor has elements");
  if (kind->dtype) out.block(*kind->dtype, elements, count);
  else out.bytes({static_cast<const std::byte*>(elements), count * own.element_size()});
}

at::Tensor object_traits<at::Tensor>::read(ObjectReader& in) {
  const std::string_view name = in.string();
  if (name.empty()) return {};
  if (name == remote_name) return libtorch::tensor_of_worker(in.bytes());
  const auto kind = kind_named(name);
  if (!kind) in.refuse("a tensor of a dtype that this PyTorch does not have");
  const auto shape = in.read<std::vector<std::int64_t>>();
  const std::size_t element = c10::elementSize(kind->type);
  const auto numel = numel_of(shape, element);
  if (!numel) in.refuse("a tensor of a shape beyond any memory");
  const auto bytes = kind->dtype ? in.block(*kind->dtype) : in.bytes();
  if (bytes.size() != static_cast<std::size_t>(*numel) * element) in.refuse("a tensor of another shape than its elements");
  if (kind->type == at::kBool && std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; })) {
    in.refuse("a truth value that is neither true nor false");
  }
  at::Tensor tensor = at::empty(shape, at::TensorOptions(kind->type).device(at::kCPU).requires_grad(false));
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

at::Tensor tensor_of(const AnyValue& value) {
  AnyValue own = value;  // a mutable copy of the handle, because only those can be viewed
  const TensorView view = own.tensor();
  at::Tensor tensor = at::empty(at::IntArrayRef(view.shape().data(), view.shape().size()), torch_dtype(view.dtype()));
  if (view.numel() > 0) std::memcpy(tensor.mutable_data_ptr(), view.data(), view.bytes());
  return tensor;
}

}  // namespace unisono
