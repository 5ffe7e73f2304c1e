#pragma once

#include <optional>
#include <span>

#include "engines/nccl/loader.h"
#include "unisono/call.h"

namespace unisono::engines::nccl {

/// How NCCL sees the elements of a reduction: complex numbers as pairs, truth values as bytes.
struct Reduction {
  DataType type;
  std::size_t per_element;
  RedOp op;
};
/// Nothing where NCCL has no such reduction, or has one that gives something else than unisono promises (an average of integers that overflows).
std::optional<Reduction> reduction_of(DType dtype, ReduceOp op) noexcept;

/// Whether `enqueue` can carry it out; the same on all ranks.
bool offers(const CollectiveCall& call) noexcept;

/// One communicator of this process, and where its work goes.
struct Member {
  Comm comm = nullptr;
  int rank = 0;
  int device = 0;
  Stream stream = nullptr;
};

/// Puts a call on the stream of a member, `index` among those of this process. Within ncclGroupStart and ncclGroupEnd. The first error, and whose it
/// was.
struct Launched {
  Result result = Result::success;
  CudaError cuda = CudaError::success;
  const char* function = "";
};
Launched enqueue(const Vendor& vendor, const CollectiveCall& call, const Member& member, std::size_t index, int size);

/// The elements of a message, by the communicator's ranks.
struct Message {
  TensorView data;
  int peer = 0;
  bool sends = false;
};
Launched enqueue(const Vendor& vendor, const Message& message, const Member& member);

}  // namespace unisono::engines::nccl
