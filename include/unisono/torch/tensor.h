#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"

// at::Tensor, and so torch::Tensor, is a buffer: every collective, message and parameter function
// takes it, whatever its dtype and strides, on any device that the group's backend serves.
//
// ```cpp
// at::Tensor x = torch::ones({2, 3});
// all_reduce(x.t());                                 // strided, and a temporary handle: x itself is changed
// ```
//
// A handle is enough, even a constant one: the tensor's memory is written to. Autograd records
// nothing of it. The version counter of a tensor that is written to goes up, so that backward
// complains if it has kept the old values.

namespace unisono {

/// Returns the DType of a tensor's elements. InvalidArgument, with its name, for a type that no
/// DType stands for (quantized, float8, sub-byte types).
UNISONO_API DType dtype_of_torch(at::ScalarType type);

/// Returns torch's name of a DType.
UNISONO_API at::ScalarType torch_dtype(DType dtype);

/// Returns a torch device as the library's. InvalidArgument for devices other than cpu and cuda.
UNISONO_API Device device_of_torch(const at::Device& device);

/// Returns a device as torch's.
UNISONO_API at::Device torch_device(Device device);

namespace detail {
/// Returns a view of a tensor. InvalidArgument for an undefined, sparse, nested or otherwise
/// memoryless tensor, for lazy conjugates and negatives, and for a tensor whose elements overlap.
UNISONO_API TensorView view_of_torch(const at::Tensor& tensor);
}  // namespace detail

/// Makes at::Tensor a buffer.
template <>
struct buffer_traits<at::Tensor> {
  static constexpr bool is_handle = true;
  static TensorView view(at::Tensor& tensor) { return detail::view_of_torch(tensor); }
  UNISONO_API static void written(at::Tensor& tensor);
};

}  // namespace unisono

// Lists of tensors of any shapes, which the other ranks learn: ranks need to have nothing in common
// but the dtype.
//
// Memory of a device stays on the device. The tensors that are returned are contiguous and require
// no gradient; those of a list lie one behind the other in one memory.

namespace unisono {

/// Returns the tensors of all ranks on every rank; element r is that of rank r. Mismatch on all
/// ranks for different dtypes.
[[nodiscard]] UNISONO_API std::vector<at::Tensor> all_gather_list(const at::Tensor& tensor, const ProcessGroup& group = current_world(),
                                                                  const CallOptions& options = {});

/// Returns the tensors of all ranks on rank `dst`, and std::nullopt on every other rank.
[[nodiscard]] UNISONO_API std::optional<std::vector<at::Tensor>> gather_list(const at::Tensor& tensor, Rank dst = 0,
                                                                             const ProcessGroup& group = current_world(),
                                                                             const CallOptions& options = {});

/// Returns tensor r of rank `src`'s list on rank r; on its own device, if the list is on one.
///
/// The list has group.size() tensors of one dtype and device; otherwise all ranks throw
/// InvalidArgument. The lists of the other ranks are ignored.
[[nodiscard]] UNISONO_API at::Tensor scatter_list(const std::vector<at::Tensor>& list, Rank src = 0, const ProcessGroup& group = current_world(),
                                                  const CallOptions& options = {});

}  // namespace unisono
