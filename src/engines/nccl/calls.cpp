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

/// Writes the factor as an element of that type.
void put_factor(void* element, double factor, DataType type) {
  const auto put = [&](auto value) { std::memcpy(element, &value, sizeof value); };
  switch (type) {
    case DataType::float16: return put(float16(static_cast<float>(factor)));
    case DataType::bfloat16: return put(bfloat16(static_cast<float>(factor)));
    case DataType::float32: return put(static_cast<float>(factor));
    default: return put(factor);
  }
}

bool is_list(const CollectiveCall& call) { return call.device != nullptr && !call.device->ins.empty(); }

}  // namespace

Part::Part(const Vendor& vendor, const CollectiveCall& call, const Member& member, std::size_t index, int size)
    : nccl_(vendor.nccl),
      cuda_(vendor.cuda),
      call_(call),
      member_(member),
      in_(is_list(call) ? call.device->ins[index] : call.in),
      out_(is_list(call) ? call.device->outs[index] : call.out),
      size_(static_cast<std::size_t>(size)) {}

Launched Part::enqueue() {
  std::optional<Reduction> reduction;
  if (reduces(call_.operation)) {
    reduction = prepare_reduction();
    if (!reduction) return done_;
  }
  const auto numbers = [&](const TensorView& data) { return static_cast<std::size_t>(data.numel()) * reduction->per_element; };
  const Reduction r = reduction.value_or(Reduction{});
  const bool is_known = [&] {
    switch (call_.operation) {
      case Operation::all_reduce:
        note("ncclAllReduce", nccl_.all_reduce(in_.data(), out_.data(), numbers(in_), r.type, r.op, member_.comm, member_.stream));
        return true;
      case Operation::reduce: {
        void* const result = is_root() ? out_.data() : nullptr;
        note("ncclReduce", nccl_.reduce(in_.data(), result, numbers(in_), r.type, r.op, call_.root, member_.comm, member_.stream));
        return true;
      }
      case Operation::reduce_scatter:
        note("ncclReduceScatter", nccl_.reduce_scatter(in_.data(), out_.data(), numbers(out_), r.type, r.op, member_.comm, member_.stream));
        return true;
      case Operation::reduce_scatter_v: reduce_and_scatter_blocks(r); return true;
      case Operation::broadcast:
        note("ncclBroadcast", nccl_.broadcast(in_.data(), out_.data(), in_.bytes(), DataType::uint8, call_.root, member_.comm, member_.stream));
        return true;
      case Operation::all_gather:
        note("ncclAllGather", nccl_.all_gather(in_.data(), out_.data(), in_.bytes(), DataType::uint8, member_.comm, member_.stream));
        return true;
      case Operation::all_gather_v: gather_all_blocks(); return true;
      case Operation::gather:
      case Operation::gather_v: gather(); return true;
      case Operation::scatter:
      case Operation::scatter_v: scatter(); return true;
      case Operation::all_to_all:
      case Operation::all_to_all_v: exchange(); return true;
      case Operation::barrier:
      case Operation::scan:
      case Operation::exscan:
      case Operation::send:
      case Operation::recv: break;
    }
    return false;
  }();
  if (!is_known) note("enqueue", Result::invalid_usage);
  // NCCL releases an operation as soon as the functions that use it have returned.
  if (call_.factor) note("ncclRedOpDestroy", nccl_.red_op_destroy(r.op, member_.comm));
  return done_;
}

// The first error counts; in_progress is no error.
Launched Part::note(const char* function, Result result) {
  if (result == Result::in_progress || done_.result != Result::success || done_.cuda != CudaError::success) return done_;
  if (result != Result::success) done_ = {.result = result, .cuda = CudaError::success, .function = function};
  return done_;
}

// The bytes of a rank's block.
std::size_t Part::length(const Counts& counts, std::size_t rank) const { return (counts.size() == 0 ? call_.count : counts[rank]) * element(); }

// The offset of a rank's block in bytes.
std::size_t Part::begin(const Counts& counts, std::size_t rank) const {
  return (counts.size() == 0 ? rank * call_.count : counts.before(rank)) * element();
}

// The reduction in NCCL's terms, with the call's factor where it has one. Returns nothing where NCCL refuses the factor.
std::optional<Reduction> Part::prepare_reduction() {
  Reduction r = *reduction_of(in_.dtype(), call_.op);
  if (!call_.factor) return r;
  double element = 0;
  put_factor(&element, *call_.factor, r.type);
  const Result made = nccl_.red_op_create_premul_sum(&r.op, &element, r.type, ScalarResidence::host_immediate, member_.comm);
  if (made == Result::success) return r;
  note("ncclRedOpCreatePreMulSum", made);
  return std::nullopt;
}

void Part::send(int peer, std::size_t offset, std::size_t bytes) {
  if (bytes > 0) note("ncclSend", nccl_.send(from(offset), bytes, DataType::uint8, peer, member_.comm, member_.stream));
}

void Part::recv(int peer, std::size_t offset, std::size_t bytes) {
  if (bytes > 0) note("ncclRecv", nccl_.recv(to(offset), bytes, DataType::uint8, peer, member_.comm, member_.stream));
}

// Copies a rank's block for itself.
void Part::keep(std::size_t in_offset, std::size_t out_offset, std::size_t bytes) {
  if (bytes == 0 || from(in_offset) == to(out_offset)) return;
  const CudaError error = cuda_.memcpy_async(to(out_offset), from(in_offset), bytes, MemcpyKind::automatic, member_.stream);
  if (error != CudaError::success && done_.result == Result::success && done_.cuda == CudaError::success) {
    done_ = {.result = Result::success, .cuda = error, .function = "cudaMemcpyAsync"};
  }
}

void Part::reduce_and_scatter_blocks(const Reduction& r) {
  for (std::size_t k = 0; k < size_; ++k) {
    if (call_.counts[k] == 0) continue;
    void* const result = k == own() ? out_.data() : nullptr;
    note("ncclReduce", nccl_.reduce(from(begin(call_.counts, k)), result, call_.counts[k] * r.per_element, r.type, r.op, static_cast<int>(k),
                                    member_.comm, member_.stream));
  }
}

void Part::gather_all_blocks() {
  for (std::size_t k = 0; k < size_; ++k) {
    const std::size_t bytes = length(call_.counts, k);
    if (bytes == 0) continue;
    std::byte* const block = to(begin(call_.counts, k));
    const void* const source = k == own() ? in_.data() : block;
    note("ncclBroadcast", nccl_.broadcast(source, block, bytes, DataType::uint8, static_cast<int>(k), member_.comm, member_.stream));
  }
}

void Part::gather() {
  if (!is_root()) return send(call_.root, 0, in_.bytes());
  for (std::size_t k = 0; k < size_; ++k) {
    if (k != own()) recv(static_cast<int>(k), begin(call_.counts, k), length(call_.counts, k));
  }
  keep(0, begin(call_.counts, own()), in_.bytes());
}

void Part::scatter() {
  if (!is_root()) return recv(call_.root, 0, out_.bytes());
  for (std::size_t k = 0; k < size_; ++k) {
    if (k != own()) send(static_cast<int>(k), begin(call_.counts, k), length(call_.counts, k));
  }
  keep(begin(call_.counts, own()), 0, out_.bytes());
}

void Part::exchange() {
  for (std::size_t k = 0; k < size_; ++k) {
    if (k == own()) continue;
    send(static_cast<int>(k), begin(call_.counts, k), length(call_.counts, k));
    recv(static_cast<int>(k), begin(call_.recv_counts, k), length(call_.recv_counts, k));
  }
  keep(begin(call_.counts, own()), begin(call_.recv_counts, own()), length(call_.counts, own()));
}

Launched MessagePart::enqueue() {
  void* const data = message_.data.data();
  const std::size_t bytes = message_.data.bytes();
  if (bytes == 0) return {};
  const Result result = message_.sends ? nccl_.send(data, bytes, DataType::uint8, message_.peer, member_.comm, member_.stream)
                                       : nccl_.recv(data, bytes, DataType::uint8, message_.peer, member_.comm, member_.stream);
  if (result == Result::success || result == Result::in_progress) return {};
  return {.result = result, .cuda = CudaError::success, .function = message_.sends ? "ncclSend" : "ncclRecv"};
}

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

bool is_one_function(const CollectiveCall& call) noexcept {
  if (call.factor) return false;  // whose operation is made before and destroyed after it
  const Operation operation = call.operation;
  return operation == Operation::all_reduce || operation == Operation::reduce || operation == Operation::reduce_scatter ||
         operation == Operation::broadcast || operation == Operation::all_gather;
}

bool offers(const CollectiveCall& call) noexcept {
  const bool several = is_list(call);
  if (call.deterministic) return false;  // NCCL combines in an order of its own; on the host the order is that of the ranks
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
    case Operation::barrier:
    case Operation::scan:
    case Operation::exscan:
    case Operation::send:
    case Operation::recv: return false;
  }
  return false;
}

}  // namespace unisono::engines::nccl
