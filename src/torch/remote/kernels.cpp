#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <algorithm>
#include <string_view>

#include "torch/remote/device.h"
#include "torch/remote/operators.h"
#include "torch/remote/place.h"
#include "torch/remote/session.h"
#include "torch/remote/transfer.h"
#include "unisono/error.h"

// The kernels of operators that concern what the controller knows itself, and no elements: new tensors, views, shapes. PyTorch's own kernels for
// views touch no memory. Everything else is sent to the worker.

namespace unisono::libtorch {
namespace {

at::DimVector strides_for(at::IntArrayRef sizes, at::MemoryFormat format) {
  if (format == at::MemoryFormat::ChannelsLast) return copied(c10::get_channels_last_strides_2d(sizes));
  if (format == at::MemoryFormat::ChannelsLast3d) return copied(c10::get_channels_last_strides_3d(sizes));
  return row_strides(sizes);
}

at::Tensor new_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                      std::optional<at::Device> device, std::optional<bool> pinned) {
  if (layout.value_or(at::kStrided) != at::kStrided) throw Unsupported("a sparse tensor cannot be on a worker");
  if (pinned.value_or(false)) throw Unsupported("memory cannot be pinned for remote tensors: their elements travel to other processes");
  for (const std::int64_t size : sizes) {
    if (size < 0) throw InvalidArgument("a tensor cannot have a negative size: " + c10::str(sizes));
  }
  const auto [session, worker] = place_of(device.value_or(at::Device(at::kPrivateUse1)));
  return make_tensor(session, worker, {c10::dtype_or_default(dtype), copied(sizes), copied(strides)});
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  return new_tensor(sizes, strides_for(sizes, format.value_or(at::MemoryFormat::Contiguous)), dtype, layout, device, pinned);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pinned) {
  return new_tensor(sizes, strides, dtype, layout, device, pinned);
}

/// A worker has no tensors of zeros without memory, of which autograd makes some.
at::Tensor zeros(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pinned) {
  return new_tensor(sizes, row_strides(sizes), dtype, layout, device, pinned).zero_();
}

void give_storage(const at::Tensor& tensor, const c10::Storage& storage, const Geometry& geometry) {
  if (storage.device_type() != at::kPrivateUse1) throw InvalidArgument("a remote tensor cannot have a storage on " + storage.device().str());
  auto* const impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(storage);
  impl->set_sizes_and_strides(geometry.sizes, geometry.strides, geometry.offset);
  if (const std::size_t bytes = bytes_of(geometry); bytes > storage.nbytes()) storage.unsafeGetStorageImpl()->set_nbytes(bytes);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the types are those of the operator
at::Tensor& set_part(at::Tensor& self, at::Storage source, std::int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const at::DimVector own = strides.empty() && !sizes.empty() ? row_strides(sizes) : copied(strides);
  give_storage(self, source, {self.scalar_type(), copied(sizes), own, offset});
  return self;
}

at::Tensor& set_whole(at::Tensor& self, at::Storage source) {
  const auto numel = static_cast<std::int64_t>(source.nbytes() / self.element_size());
  return set_part(self, std::move(source), 0, {numel}, {1});
}

at::Tensor& set_alike(at::Tensor& self, const at::Tensor& source) {
  if (!self.is_same(source)) give_storage(self, source.storage(), geometry_of(source));
  return self;
}

at::Tensor& set_empty(at::Tensor& self) {
  const Handle& handle = handle_of(self);
  return set_part(self, make_storage(handle.session, handle.worker, handle.session->new_storage(), 0), 0, {0}, {1});
}

const at::Tensor& resize_in_place(const at::Tensor& self, at::IntArrayRef sizes, std::optional<at::MemoryFormat> format) {
  const Geometry geometry{self.scalar_type(), copied(sizes), strides_for(sizes, format.value_or(at::MemoryFormat::Contiguous)),
                          self.storage_offset()};
  give_storage(self, self.storage(), geometry);
  return self;  // NOLINT(bugprone-return-const-ref-from-parameter): as the operator does
}

/// Lets set_data() put a remote tensor in the place of one of the cpu, as Module::to does.
bool can_take_place(const at::Tensor& self, const at::Tensor& other) {
  const auto is_dense = [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && (is_remote(tensor) || tensor.is_cpu() || tensor.is_cuda());
  };
  return is_dense(self) && is_dense(other);
}

/// Tells whether an operator that PyTorch composes of others has a kernel of its own on the cpu, or composes differently there: then the worker is to
/// carry out the whole, as one process would. Optimizers' operators on lists are one message in this way.
bool is_sent_whole(const c10::OperatorHandle& op) {
  using Key = c10::DispatchKey;
  const std::string& name = op.operator_name().name;
  if (!op.hasSchema() || !name.starts_with("aten::")) return false;
  if (name == "aten::convolution" || name == "aten::convolution_backward" || name.starts_with("aten::_foreach_")) {
    return op.hasKernelForDispatchKey(Key::CompositeExplicitAutograd);
  }
  const bool is_composed =
      op.hasKernelForDispatchKey(Key::CompositeExplicitAutogradNonFunctional) || op.hasKernelForDispatchKey(Key::CompositeExplicitAutograd);
  return is_composed && op.hasKernelForDispatchKey(Key::CPU);
}

}  // namespace

void register_operators() {
  auto& all = *new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  all.fallback(torch::CppFunction::makeFromBoxedFunction<&carry_out>());
  auto& aten = *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  aten.impl("empty.memory_format", empty);
  aten.impl("empty_strided", empty_strided);
  aten.impl("_efficientzerotensor", zeros);
  aten.impl("as_strided", at::native::as_strided_tensorimpl);
  aten.impl("view", at::native::view);
  aten.impl("_reshape_alias", at::native::_reshape_alias);
  aten.impl("unfold", at::native::unfold);
  aten.impl("view_as_real", at::native::view_as_real);
  aten.impl("view_as_complex", at::native::view_as_complex);
  aten.impl("set_.source_Storage_storage_offset", set_part);
  aten.impl("set_.source_Storage", set_whole);
  aten.impl("set_.source_Tensor", set_alike);
  aten.impl("set_", set_empty);
  aten.impl("resize_", resize_in_place);
  aten.impl("_has_compatible_shallow_copy_type", can_take_place);
  aten.impl("copy_", copy_into);
  aten.impl("_copy_from", copy_from);
  aten.impl("_local_scalar_dense", local_scalar);
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || !is_sent_whole(*op) || op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    aten.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&carry_out>());
  }
}

}  // namespace unisono::libtorch
