#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "unisono/export.h"
#include "unisono/process_group.h"

// Lists of tensors of any shapes, which the others learn: ranks need to have nothing in common but the dtype. Device memory stays on the device. What
// is returned is contiguous and requires no gradient; the tensors of a list lie one behind the other in one memory.

namespace unisono {

/// Element r is the tensor of rank r. Mismatch on all ranks where they are of different dtypes.
[[nodiscard]] UNISONO_API std::vector<at::Tensor> all_gather_list(const at::Tensor& tensor, const ProcessGroup& group = current_world(),
                                                                  const CallOptions& options = {});
/// nullopt everywhere but at rank `dst`.
[[nodiscard]] UNISONO_API std::optional<std::vector<at::Tensor>> gather_list(const at::Tensor& tensor, Rank dst = 0,
                                                                             const ProcessGroup& group = current_world(),
                                                                             const CallOptions& options = {});
/// The r-th tensor of rank `src`'s list, on rank r, on its own device where the list is on one. The list has size() tensors of one dtype and device,
/// else all ranks throw InvalidArgument; elsewhere it does not count.
[[nodiscard]] UNISONO_API at::Tensor scatter_list(const std::vector<at::Tensor>& list, Rank src = 0,
                                                  const ProcessGroup& group = current_world(), const CallOptions& options = {});

}  // namespace unisono
