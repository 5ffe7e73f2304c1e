#include "engines/nccl/calls.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace unisono::engines::nccl {
namespace {

struct Number {
  DType dtype;
  DataType type;
};
/// The numbers that NCCL has too; the floats from float16 on.
constexpr Number numbers_of_nccl[] = {
    {DType::int8, DataType::int8},       {DType::uint8, DataType::uint8},       {DType::int32, DataType::int32},
    {DType::uint32, DataType::uint32},   {DType::int64, DataType::int64},       {DType::uint64, DataType::uint64},
    {DType::float16, DataType::float16}, {DType::bfloat16, DataType::bfloat16}, {DType::float32, DataType::float32},
    {DType::float64, DataType::float64},
};
/// The operations on them that NCCL has too.
constexpr std::pair<ReduceOp, RedOp> ops_of_nccl[] = {{ReduceOp::sum, RedOp::sum},
                                                      {ReduceOp::product, RedOp::prod},
                                                      {ReduceOp::min, RedOp::min},
                                                      {ReduceOp::max, RedOp::max},
                                                      {ReduceOp::avg, RedOp::avg}};

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

/// An operation that NCCL carries out, by functions of its own or by messages.
struct Part::Own {
  Enqueue enqueue = nullptr;
  bool is_one_function = false;
};

const OperationMap<Part::Own> Part::own_operations{
    {Operation::all_reduce, {&Part::all_reduce, true}},
    {Operation::reduce, {&Part::reduce, true}},
    {Operation::reduce_scatter, {&Part::reduce_scatter, true}},
    {Operation::broadcast, {&Part::broadcast, true}},
    {Operation::all_gather, {&Part::all_gather, true}},
    {Operation::reduce_scatter_v, {&Part::reduce_and_scatter_blocks}},
    {Operation::all_gather_v, {&Part::gather_all_blocks}},
    {Operation::gather, {&Part::gather}},
    {Operation::gather_v, {&Part::gather}},
    {Operation::scatter, {&Part::scatter}},
    {Operation::scatter_v, {&Part::scatter}},
    {Operation::all_to_all, {&Part::exchange}},
    {Operation::all_to_all_v, {&Part::exchange}},
};

Part::Enqueue Part::prepare() {
  const Enqueue enqueue = own_operations[call_.operation].enqueue;
  if (enqueue == nullptr) note("enqueue", Result::invalid_usage);
  if (!reduces(call_.operation)) return enqueue;
  reduction_ = prepare_reduction();
  return reduction_ ? enqueue : nullptr;
}

Launched Part::finish() {
  // NCCL releases an operation as soon as the functions that use it have returned.
  if (call_.factor && reduction_) note("ncclRedOpDestroy", nccl_.red_op_destroy(reduction_->op, member_.comm));
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

void Part::all_reduce(const Reduction& r) {
  note("ncclAllReduce", nccl_.all_reduce(in_.data(), out_.data(), numbers(in_, r), r.type, r.op, member_.comm, member_.stream));
}

void Part::reduce(const Reduction& r) {
  void* const result = is_root() ? out_.data() : nullptr;
  note("ncclReduce", nccl_.reduce(in_.data(), result, numbers(in_, r), r.type, r.op, call_.root, member_.comm, member_.stream));
}

void Part::reduce_scatter(const Reduction& r) {
  note("ncclReduceScatter", nccl_.reduce_scatter(in_.data(), out_.data(), numbers(out_, r), r.type, r.op, member_.comm, member_.stream));
}

void Part::broadcast(const Reduction&) {
  note("ncclBroadcast", nccl_.broadcast(in_.data(), out_.data(), in_.bytes(), DataType::uint8, call_.root, member_.comm, member_.stream));
}

void Part::all_gather(const Reduction&) {
  note("ncclAllGather", nccl_.all_gather(in_.data(), out_.data(), in_.bytes(), DataType::uint8, member_.comm, member_.stream));
}

void Part::reduce_and_scatter_blocks(const Reduction& r) {
  for (std::size_t k = 0; k < size_; ++k) {
    if (call_.counts[k] == 0) continue;
    void* const result = k == own() ? out_.data() : nullptr;
    note("ncclReduce", nccl_.reduce(from(begin(call_.counts, k)), result, call_.counts[k] * r.per_element, r.type, r.op, static_cast<int>(k),
                                    member_.comm, member_.stream));
  }
}

void Part::gather_all_blocks(const Reduction&) {
  for (std::size_t k = 0; k < size_; ++k) {
    const std::size_t bytes = length(call_.counts, k);
    if (bytes == 0) continue;
    std::byte* const block = to(begin(call_.counts, k));
    const void* const source = k == own() ? in_.data() : block;
    note("ncclBroadcast", nccl_.broadcast(source, block, bytes, DataType::uint8, static_cast<int>(k), member_.comm, member_.stream));
  }
}

void Part::gather(const Reduction&) {
  if (!is_root()) return send(call_.root, 0, in_.bytes());
  for (std::size_t k = 0; k < size_; ++k) {
    if (k != own()) recv(static_cast<int>(k), begin(call_.counts, k), length(call_.counts, k));
  }
  keep(0, begin(call_.counts, own()), in_.bytes());
}

void Part::scatter(const Reduction&) {
  if (!is_root()) return recv(call_.root, 0, out_.bytes());
  for (std::size_t k = 0; k < size_; ++k) {
    if (k != own()) send(static_cast<int>(k), begin(call_.counts, k), length(call_.counts, k));
  }
  keep(begin(call_.counts, own()), 0, out_.bytes());
}

void Part::exchange(const Reduction&) {
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
  const auto* const type = std::ranges::find(numbers_of_nccl, dtype, &Number::dtype);
  const auto* const combines = std::ranges::find(ops_of_nccl, op, &std::pair<ReduceOp, RedOp>::first);
  if (type == std::end(numbers_of_nccl) || combines == std::end(ops_of_nccl)) return std::nullopt;
  if (op == ReduceOp::avg && dtype < DType::float16) return std::nullopt;
  return Reduction{type->type, 1, combines->second};
}

// Beside one function, a factor's operation is made before it and destroyed after it.
bool Part::is_one_function(const CollectiveCall& call) noexcept { return !call.factor && own_operations[call.operation].is_one_function; }

bool Part::offers(const CollectiveCall& call) noexcept {
  const Own& own = own_operations[call.operation];
  if (own.enqueue == nullptr || (is_list(call) && !own.is_one_function)) return false;
  if (call.deterministic) return false;  // NCCL combines in an order of its own; on the host the order is that of the ranks
  return !reduces(call.operation) || (!call.custom && reduction_of(call.in.dtype(), call.op).has_value());
}

}  // namespace unisono::engines::nccl
