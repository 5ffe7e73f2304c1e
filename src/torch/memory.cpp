#include "unisono/torch/memory.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <fmt/format.h>

#include "unisono/error.h"
#include "unisono/shared_memory.h"

namespace unisono {
namespace {

constexpr std::size_t alignment = 64;

struct Block {
  void* memory;
  std::size_t bytes;
};

void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  shared_resource()->deallocate(block->memory, block->bytes, alignment);
  delete block;
}

struct SharedTensorAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    auto block = std::make_unique<Block>();
    *block = {shared_resource()->allocate(bytes, alignment), bytes};
    return {block->memory, block.release(), &free_block, at::kCPU};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

void check_place(const char* call, const at::Device& device, at::Layout layout) {
  if (!device.is_cpu()) {
    throw InvalidArgument(fmt::format("memory that the ranks of a host share is of the cpu, not of {}", device.str()),
                          {.operation = call, .hint = "tensors of a device are reached by its own backend; leave them where they are"});
  }
  if (layout != at::kStrided) {
    throw InvalidArgument(fmt::format("a tensor of layout {} has no memory that could be shared", c10::str(layout)),
                          {.operation = call, .hint = "share its values and its indices"});
  }
}

/// Makes a tensor; without strides it is contiguous.
at::Tensor make(at::IntArrayRef sizes, at::OptionalIntArrayRef strides, at::ScalarType dtype, std::optional<at::MemoryFormat> format) {
  constexpr c10::DispatchKeySet cpu(c10::DispatchKey::CPU);
  if (strides) return at::Tensor(at::detail::empty_strided_generic(sizes, *strides, shared_allocator(), cpu, dtype));
  return at::Tensor(at::detail::empty_generic(sizes, shared_allocator(), cpu, dtype, format));
}

}  // namespace

c10::Allocator* shared_allocator() noexcept {
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory for a pointer the program ends
  static auto& allocator = *new SharedTensorAllocator;  // never destroyed, because tensors may outlive static objects
  return &allocator;
}

at::Tensor empty_shared(at::IntArrayRef sizes, const at::TensorOptions& options) {
  check_place("empty_shared", options.device(), options.layout());
  if (options.pinned_memory()) throw InvalidArgument("shared memory cannot be pinned", {.operation = "empty_shared"});
  for (const std::int64_t extent : sizes) {
    if (extent < 0) throw InvalidArgument(fmt::format("an extent of {}", extent), {.operation = "empty_shared"});
  }
  at::Tensor tensor = make(sizes, std::nullopt, c10::typeMetaToScalarType(options.dtype()), options.memory_format_opt());
  if (options.requires_grad()) tensor.requires_grad_();
  return tensor;
}

at::Tensor to_shared(const at::Tensor& tensor) {
  if (!tensor.defined()) throw InvalidArgument("an undefined tensor has no elements", {.operation = "to_shared"});
  check_place("to_shared", tensor.device(), tensor.layout());
  if (tensor.is_quantized()) throw InvalidArgument("a quantized tensor cannot be shared", {.operation = "to_shared", .hint = "dequantize() it"});
  if (is_shared(tensor)) return tensor;
  at::Tensor copy = tensor.is_non_overlapping_and_dense() ? make(tensor.sizes(), tensor.strides(), tensor.scalar_type(), std::nullopt)
                                                          : make(tensor.sizes(), std::nullopt, tensor.scalar_type(), std::nullopt);
  return copy.copy_(tensor);
}

bool is_shared(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || !tensor.device().is_cpu()) return false;
  const at::Storage& storage = tensor.storage();
  return is_shared(storage.data(), storage.nbytes());
}

}  // namespace unisono
