#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "unisono/export.h"
#include "unisono/process_group.h"

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
/// The list has group.size() tensors of one dtype and device, else all ranks throw InvalidArgument.
/// The lists of the other ranks are ignored.
[[nodiscard]] UNISONO_API at::Tensor scatter_list(const std::vector<at::Tensor>& list, Rank src = 0, const ProcessGroup& group = current_world(),
                                                  const CallOptions& options = {});

}  // namespace unisono
