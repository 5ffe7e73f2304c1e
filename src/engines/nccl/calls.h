#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engines/nccl/loader.h"
#include "unisono/call.h"

namespace unisono::engines::nccl {

/// A reduction in NCCL's terms: complex numbers as pairs, truth values as bytes.
struct Reduction {
  DataType type;
  std::size_t per_element;
  RedOp op;
};
/// Returns nothing where NCCL has no such reduction, or one with another result than unisono promises (an average of integers that overflows).
std::optional<Reduction> reduction_of(DType dtype, ReduceOp op) noexcept;

/// A communicator of this process, and the stream for its work.
struct Member {
  Comm comm = nullptr;
  int rank = 0;
  int device = 0;
  Stream stream = nullptr;
};

/// The result of a call that was put on a member's stream: the first error, and the function that returned it.
struct Launched {
  Result result = Result::success;
  CudaError cuda = CudaError::success;
  const char* function = "";
};

/// A member's part of a collective, `index` among the members of this process. The call must outlive it.
class Part {
 public:
  /// Returns true where a Part can carry the call out; all ranks get the same answer.
  static bool offers(const CollectiveCall& call) noexcept;
  /// Returns true if one function of NCCL carries out a member's part of the call.
  static bool is_one_function(const CollectiveCall& call) noexcept;

  Part(const Vendor& vendor, const CollectiveCall& call, const Member& member, std::size_t index, int size);
  /// Puts the part on the member's stream. The caller is between ncclGroupStart and ncclGroupEnd, unless there is one member and `is_one_function`.
  using Enqueue = void (Part::*)(const Reduction&);
  /// Returns the function that does so, which gets `reduction`; null if there is nothing to do, because of an error. `finish` returns what came of
  /// it.
  Enqueue prepare();
  Reduction reduction() const { return reduction_.value_or(Reduction{}); }
  Launched finish();

 private:
  struct Own;
  static const OperationMap<Own> own_operations;

  Launched note(const char* function, Result result);
  std::size_t element() const { return size_of(in_.dtype()); }
  static std::size_t numbers(const TensorView& data, const Reduction& r) { return static_cast<std::size_t>(data.numel()) * r.per_element; }
  std::size_t own() const { return static_cast<std::size_t>(member_.rank); }
  bool is_root() const { return member_.rank == call_.root; }
  const std::byte* from(std::size_t bytes) const { return static_cast<const std::byte*>(in_.data()) + bytes; }
  std::byte* to(std::size_t bytes) const { return static_cast<std::byte*>(out_.data()) + bytes; }
  std::size_t length(const Counts& counts, std::size_t rank) const;
  std::size_t begin(const Counts& counts, std::size_t rank) const;
  std::optional<Reduction> prepare_reduction();
  void send(int peer, std::size_t offset, std::size_t bytes);
  void recv(int peer, std::size_t offset, std::size_t bytes);
  void keep(std::size_t in_offset, std::size_t out_offset, std::size_t bytes);
  // The operations. What combines nothing takes no notice of the reduction.
  void all_reduce(const Reduction& reduction);
  void reduce(const Reduction& reduction);
  void reduce_scatter(const Reduction& reduction);
  void broadcast(const Reduction&);
  void all_gather(const Reduction&);
  void reduce_and_scatter_blocks(const Reduction& reduction);
  void gather_all_blocks(const Reduction&);
  void gather(const Reduction&);
  void scatter(const Reduction&);
  void exchange(const Reduction&);

  const NcclApi& nccl_;
  const CudaApi& cuda_;
  const CollectiveCall& call_;
  const Member& member_;
  const TensorView& in_;
  const TensorView& out_;
  std::size_t size_;
  std::optional<Reduction> reduction_;
  Launched done_;
};

/// The elements of a message, by the communicator's ranks.
struct Message {
  TensorView data;
  int peer = 0;
  bool sends = false;
  std::vector<std::shared_ptr<DeviceEvent>> after = {};  ///< the events that its memory waits for
};
/// A member's part of a message, as of a collective.
class MessagePart {
 public:
  MessagePart(const Vendor& vendor, const Message& message, const Member& member, std::size_t, int)
      : nccl_(vendor.nccl), message_(message), member_(member) {}
  static bool is_one_function(const Message&) noexcept { return true; }
  Launched enqueue();

 private:
  const NcclApi& nccl_;
  const Message& message_;
  const Member& member_;
};

}  // namespace unisono::engines::nccl
