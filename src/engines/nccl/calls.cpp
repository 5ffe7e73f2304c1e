#include "engines/nccl/calls.h"

#include <cstring>

namespace unisono::engines::nccl {
namespace {

std::optional<DataType> number_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::int8: return DataType::int8;
    case DType::uint8: return DataType::uint8;
    case DType::int32: return DataType::int32;
    case DType::uint32: return DataType::uint32;
    case DType::int64: return DataType::int64;
    case DType::uint64: return DataType::uint64;
    case DType::float16: return DataType::float16;
    case DType::bfloat16: return DataType::bfloat16;
    case DType::float32: return DataType::float32;
    case DType::float64: return DataType::float64;
    default: return std::nullopt;
  }
}

bool is_float(DType dtype) noexcept {
  return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64;
}

/// The factor as an element of that type.
void put_factor(void* element, double factor, DataType type) {
  const auto put = [&](auto value) { std::memcpy(element, &value, sizeof value); };
  switch (type) {
    case DataType::float16: return put(float16(static_cast<float>(factor)));
    case DataType::bfloat16: return put(bfloat16(static_cast<float>(factor)));
    case DataType::float32: return put(static_cast<float>(factor));
    default: return put(factor);
  }
}

/// One member's part of a call.
class Part {
 public:
  Part(const Vendor& vendor, const CollectiveCall& call, const Member& member, const TensorView& in, const TensorView& out, int size)
      : nccl_(vendor.nccl), cuda_(vendor.cuda), call_(call), member_(member), in_(in), out_(out), size_(static_cast<std::size_t>(size)) {}

  Launched enqueue() {
    switch (call_.operation) {
      case Operation::all_reduce: return with_reduction([&](const Reduction& r) { return reduce_all(r); });
      case Operation::reduce: return with_reduction([&](const Reduction& r) { return reduce_to_root(r); });
      case Operation::broadcast:
        return note("ncclBroadcast",
                    nccl_.broadcast(in_.data(), out_.data(), in_.bytes(), DataType::uint8, call_.root, member_.comm, member_.stream));
      case Operation::all_gather:
        return note("ncclAllGather", nccl_.all_gather(in_.data(), out_.data(), in_.bytes(), DataType::uint8, member_.comm, member_.stream));
      case Operation::reduce_scatter: return with_reduction([&](const Reduction& r) { return reduce_and_scatter(r); });
      case Operation::reduce_scatter_v: return with_reduction([&](const Reduction& r) { return reduce_and_scatter_blocks(r); });
      case Operation::all_gather_v: return gather_all_blocks();
      case Operation::gather:
      case Operation::gather_v: return gather();
      case Operation::scatter:
      case Operation::scatter_v: return scatter();
      case Operation::all_to_all:
      case Operation::all_to_all_v: return exchange();
      default: return {.result = Result::invalid_usage, .cuda = CudaError::success, .function = "enqueue"};
    }
  }

 private:
  // The first error counts; in progress is none.
  Launched note(const char* function, Result result) {
    if (result == Result::in_progress || done_.result != Result::success || done_.cuda != CudaError::success) return done_;
    if (result != Result::success) done_ = {.result = result, .cuda = CudaError::success, .function = function};
    return done_;
  }
  std::size_t element() const { return size_of(in_.dtype()); }
  std::size_t own() const { return static_cast<std::size_t>(member_.rank); }
  bool is_root() const { return member_.rank == call_.root; }
  const std::byte* from(std::size_t bytes) const { return static_cast<const std::byte*>(in_.data()) + bytes; }
  std::byte* to(std::size_t bytes) const { return static_cast<std::byte*>(out_.data()) + bytes; }
  // Bytes of a rank's block, and where it begins.
  std::size_t length(const Counts& counts, std::size_t rank) const { return (counts.size() == 0 ? call_.count : counts[rank]) * element(); }
  std::size_t begin(const Counts& counts, std::size_t rank) const {
    return (counts.size() == 0 ? rank * call_.count : counts.before(rank)) * element();
  }

  Launched send(int peer, std::size_t offset, std::size_t bytes) {
    if (bytes == 0) return done_;
    return note("ncclSend", nccl_.send(from(offset), bytes, DataType::uint8, peer, member_.comm, member_.stream));
  }
  Launched recv(int peer, std::size_t offset, std::size_t bytes) {
    if (bytes == 0) return done_;
    return note("ncclRecv", nccl_.recv(to(offset), bytes, DataType::uint8, peer, member_.comm, member_.stream));
  }
  // What a rank has for itself.
  void keep(std::size_t in_offset, std::size_t out_offset, std::size_t bytes) {
    if (bytes == 0 || from(in_offset) == to(out_offset)) return;
    const CudaError error = cuda_.memcpy_async(to(out_offset), from(in_offset), bytes, MemcpyKind::automatic, member_.stream);
    if (error != CudaError::success && done_.result == Result::success && done_.cuda == CudaError::success) {
      done_ = {.result = Result::success, .cuda = error, .function = "cudaMemcpyAsync"};
    }
  }

  // The reduction, with the call's factor if it has one. NCCL lets go of an operation as soon as the functions that it was given to have returned.
  template <class F>
  Launched with_reduction(F&& call_nccl) {
    Reduction r = *reduction_of(in_.dtype(), call_.op);
    if (!call_.factor) return call_nccl(r);
    double element = 0;
    put_factor(&element, *call_.factor, r.type);
    const Result made = nccl_.red_op_create_premul_sum(&r.op, &element, r.type, ScalarResidence::host_immediate, member_.comm);
    if (made != Result::success) return note("ncclRedOpCreatePreMulSum", made);
    call_nccl(r);
    return note("ncclRedOpDestroy", nccl_.red_op_destroy(r.op, member_.comm));
  }

  Launched reduce_all(const Reduction& r) {
    const std::size_t count = static_cast<std::size_t>(in_.numel()) * r.per_element;
    return note("ncclAllReduce", nccl_.all_reduce(in_.data(), out_.data(), count, r.type, r.op, member_.comm, member_.stream));
  }
  Launched reduce_to_root(const Reduction& r) {
    const std::size_t count = static_cast<std::size_t>(in_.numel()) * r.per_element;
    void* result = is_root() ? out_.data() : nullptr;
    return note("ncclReduce", nccl_.reduce(in_.data(), result, count, r.type, r.op, call_.root, member_.comm, member_.stream));
  }
  Launched reduce_and_scatter(const Reduction& r) {
    const std::size_t count = static_cast<std::size_t>(out_.numel()) * r.per_element;
    return note("ncclReduceScatter", nccl_.reduce_scatter(in_.data(), out_.data(), count, r.type, r.op, member_.comm, member_.stream));
  }
  Launched reduce_and_scatter_blocks(const Reduction& r) {
    for (std::size_t k = 0; k < size_; ++k) {
      if (call_.counts[k] == 0) continue;
      void* result = k == own() ? out_.data() : nullptr;
      note("ncclReduce", nccl_.reduce(from(begin(call_.counts, k)), result, call_.counts[k] * r.per_element, r.type, r.op, static_cast<int>(k),
                                      member_.comm, member_.stream));
    }
    return done_;
  }
  Launched gather_all_blocks() {
    for (std::size_t k = 0; k < size_; ++k) {
      const std::size_t bytes = length(call_.counts, k);
      if (bytes == 0) continue;
      std::byte* block = to(begin(call_.counts, k));
      const void* source = k == own() ? in_.data() : block;
      note("ncclBroadcast", nccl_.broadcast(source, block, bytes, DataType::uint8, static_cast<int>(k), member_.comm, member_.stream));
    }
    return done_;
  }
  Launched gather() {
    if (!is_root()) return send(call_.root, 0, in_.bytes());
    for (std::size_t k = 0; k < size_; ++k) {
      if (k != own()) recv(static_cast<int>(k), begin(call_.counts, k), length(call_.counts, k));
    }
    keep(0, begin(call_.counts, own()), in_.bytes());
    return done_;
  }
  Launched scatter() {
    if (!is_root()) return recv(call_.root, 0, out_.bytes());
    for (std::size_t k = 0; k < size_; ++k) {
      if (k != own()) send(static_cast<int>(k), begin(call_.counts, k), length(call_.counts, k));
    }
    keep(begin(call_.counts, own()), 0, out_.bytes());
    return done_;
  }
  Launched exchange() {
    for (std::size_t k = 0; k < size_; ++k) {
      if (k == own()) continue;
      send(static_cast<int>(k), begin(call_.counts, k), length(call_.counts, k));
      recv(static_cast<int>(k), begin(call_.recv_counts, k), length(call_.recv_counts, k));
    }
    keep(begin(call_.counts, own()), begin(call_.recv_counts, own()), length(call_.counts, own()));
    return done_;
  }

  const NcclApi& nccl_;
  const CudaApi& cuda_;
  const CollectiveCall& call_;
  const Member& member_;
  const TensorView& in_;
  const TensorView& out_;
  std::size_t size_;
  Launched done_;
};

}  // namespace

std::optional<Reduction> reduction_of(DType dtype, ReduceOp op) noexcept {
  if (dtype == DType::boolean) {  // bytes that are 0 or 1
    const bool any = op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::bor || op == ReduceOp::lor;
    const bool all = op == ReduceOp::product || op == ReduceOp::min || op == ReduceOp::band || op == ReduceOp::land;
    if (any || all) return Reduction{DataType::uint8, 1, any ? RedOp::max : RedOp::min};
    return std::nullopt;
  }
  if (dtype == DType::complex64 || dtype == DType::complex128) {
    if (op != ReduceOp::sum && op != ReduceOp::avg) return std::nullopt;
    return Reduction{dtype == DType::complex64 ? DataType::float32 : DataType::float64, 2, op == ReduceOp::sum ? RedOp::sum : RedOp::avg};
  }
  const auto type = number_of(dtype);
  if (!type) return std::nullopt;
  switch (op) {
    case ReduceOp::sum: return Reduction{*type, 1, RedOp::sum};
    case ReduceOp::product: return Reduction{*type, 1, RedOp::prod};
    case ReduceOp::min: return Reduction{*type, 1, RedOp::min};
    case ReduceOp::max: return Reduction{*type, 1, RedOp::max};
    case ReduceOp::avg:
      if (is_float(dtype)) return Reduction{*type, 1, RedOp::avg};
      return std::nullopt;
    default: return std::nullopt;
  }
}

bool offers(const CollectiveCall& call) noexcept {
  const bool several = call.device != nullptr && !call.device->ins.empty();
  switch (call.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::reduce_scatter: return !call.custom && reduction_of(call.in.dtype(), call.op).has_value();
    case Operation::reduce_scatter_v: return !several && !call.custom && reduction_of(call.in.dtype(), call.op).has_value();
    case Operation::broadcast:
    case Operation::all_gather: return true;
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all:
    case Operation::all_gather_v:
    case Operation::gather_v:
    case Operation::scatter_v:
    case Operation::all_to_all_v: return !several;
    default: return false;
  }
}

Launched enqueue(const Vendor& vendor, const CollectiveCall& call, const Member& member, std::size_t index, int size) {
  const bool several = call.device != nullptr && !call.device->ins.empty();
  const TensorView& in = several ? call.device->ins[index] : call.in;
  const TensorView& out = several ? call.device->outs[index] : call.out;
  return Part(vendor, call, member, in, out, size).enqueue();
}

Launched enqueue(const Vendor& vendor, const Message& message, const Member& member) {
  void* const data = message.data.data();
  const std::size_t bytes = message.data.bytes();
  if (bytes == 0) return {};
  const Result result = message.sends ? vendor.nccl.send(data, bytes, DataType::uint8, message.peer, member.comm, member.stream)
                                      : vendor.nccl.recv(data, bytes, DataType::uint8, message.peer, member.comm, member.stream);
  if (result == Result::success || result == Result::in_progress) return {};
  return {.result = result, .cuda = CudaError::success, .function = message.sends ? "ncclSend" : "ncclRecv"};
}

}  // namespace unisono::engines::nccl
