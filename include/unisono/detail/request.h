#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "unisono/backend.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

namespace unisono::detail {

/// A collective as the typed edge hands it on: nothing is checked yet.
struct Request {
  Operation operation;
  Tensor in;
  Tensor out;
  ReduceOp op = ReduceOp::sum;
  std::shared_ptr<const CustomReduction> custom = {};
  std::optional<Rank> root = {};
};

UNISONO_API void run(const Request& request, const ProcessGroup& group, const CallOptions& options);
UNISONO_API Work start(const Request& request, const ProcessGroup& group, const CallOptions& options);

/// One side of a message; no peer: from anybody.
struct MessageRequest {
  Operation operation;
  Tensor data;
  std::optional<Rank> peer;
};
UNISONO_API int run(const MessageRequest& request, const ProcessGroup& group, const CallOptions& options);
UNISONO_API Work start(const MessageRequest& request, const ProcessGroup& group, const CallOptions& options);

inline Tensor nothing(DType dtype = DType::uint8) { return {nullptr, dtype, std::size_t{0}}; }

}  // namespace unisono::detail
