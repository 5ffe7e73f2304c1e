// The collectives and messages of the stand-in for NCCL, carried out on the memory of all ranks at once.

#include <algorithm>
#include <cstring>

#include "fake_machine.h"
#include "kernels/reduce.h"

namespace fake {
namespace {

std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::int8:
    case DataType::uint8: return 1;
    case DataType::float16:
    case DataType::bfloat16: return 2;
    case DataType::int32:
    case DataType::uint32:
    case DataType::float32: return 4;
    default: return 8;
  }
}
unisono::DType dtype_of(DataType type) {
  using unisono::DType;
  switch (type) {
    case DataType::int8: return DType::int8;
    case DataType::uint8: return DType::uint8;
    case DataType::int32: return DType::int32;
    case DataType::uint32: return DType::uint32;
    case DataType::int64: return DType::int64;
    case DataType::uint64: return DType::uint64;
    case DataType::float16: return DType::float16;
    case DataType::float32: return DType::float32;
    case DataType::float64: return DType::float64;
    case DataType::bfloat16: return DType::bfloat16;
  }
  return DType::uint8;
}
// element = factor * element, as NCCL does it on the device.
void multiply(std::vector<std::byte>& elements, DataType type, double factor) {
  const auto each = [&]<class T>(T) {
    T* x = reinterpret_cast<T*>(elements.data());
    for (std::size_t i = 0; i < elements.size() / sizeof(T); ++i) x[i] = static_cast<T>(static_cast<double>(x[i]) * factor);
  };
  if (type == DataType::float32) each(0.0F);
  else if (type == DataType::float64) each(0.0);
  else note("a factor of another type");
}

unisono::ReduceOp op_of(RedOp op) {
  using unisono::ReduceOp;
  constexpr ReduceOp all[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min, ReduceOp::avg};
  return op == made_operation ? ReduceOp::sum : all[static_cast<int>(op)];
}

// All ranks have come: does what the collective does.
void carry_out(std::vector<Part>& parts) {
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.rank < b.rank; });
  const Part& first = parts.front();
  const auto n = parts.size();
  for (const Part& part : parts) {
    if (part.kind != first.kind || part.count != first.count || part.type != first.type || part.peer != first.peer ||
        (first.kind != Kind::broadcast && first.kind != Kind::all_gather && part.op != first.op)) {
      note("ranks called different collectives");
    }
  }
  const std::size_t bytes = first.count * size_of(first.type);
  std::vector<std::vector<std::byte>> inputs;
  for (const Part& part : parts) {
    const bool gives = first.kind != Kind::broadcast || part.rank == first.peer;
    const std::size_t length = !gives ? 0 : first.kind == Kind::reduce_scatter ? bytes * n : bytes;
    const auto* from = static_cast<const std::byte*>(part.in);
    inputs.emplace_back(from, from + length);
    if (part.op == made_operation) multiply(inputs.back(), part.type, part.factor);
  }
  const auto reduced = [&](std::size_t offset) {
    std::vector<const void*> from;
    for (const auto& input : inputs) from.push_back(input.data() + offset);
    std::vector<std::byte> result(bytes);
    unisono::kernels::reduce(result.data(), from.data(), n, first.count, dtype_of(first.type), op_of(first.op), n);
    return result;
  };
  for (const Part& part : parts) {
    switch (first.kind) {
      case Kind::broadcast:
        if (bytes > 0) std::memmove(part.out, inputs[static_cast<std::size_t>(first.peer)].data(), bytes);
        break;
      case Kind::all_gather:
        for (std::size_t r = 0; r < n && bytes > 0; ++r) std::memcpy(static_cast<std::byte*>(part.out) + r * bytes, inputs[r].data(), bytes);
        break;
      case Kind::all_reduce:
        if (bytes > 0) std::memcpy(part.out, reduced(0).data(), bytes);
        break;
      case Kind::reduce:
        if (part.rank == first.peer && bytes > 0) std::memcpy(part.out, reduced(0).data(), bytes);
        break;
      case Kind::reduce_scatter:
        if (bytes > 0) std::memcpy(part.out, reduced(static_cast<std::size_t>(part.rank) * bytes).data(), bytes);
        break;
      default: break;
    }
    *part.done = true;
  }
}

void match(CommunicatorState& communicator, std::pair<int, int> pair) {
  auto& sent = communicator.sent[pair];
  auto& awaited = communicator.awaited[pair];
  while (!sent.empty() && !awaited.empty()) {
    const Part from = sent.front(), to = awaited.front();
    if (from.count * size_of(from.type) != to.count * size_of(to.type)) note("a message of another length than its receive");
    std::memcpy(to.out, from.in, to.count * size_of(to.type));
    *from.done = *to.done = true;
    sent.pop_front();
    awaited.pop_front();
  }
}

}  // namespace

void post(Part& part) {
  part.posted = true;
  CommunicatorState& communicator = *part.communicator;
  Part kept = part;
  kept.communicator.reset();  // the communicator keeps the part, which must not keep the communicator
  if (part.kind == Kind::send) {
    communicator.sent[{part.rank, part.peer}].push_back(std::move(kept));
    return match(communicator, {part.rank, part.peer});
  }
  if (part.kind == Kind::recv) {
    communicator.awaited[{part.peer, part.rank}].push_back(std::move(kept));
    return match(communicator, {part.peer, part.rank});
  }
  auto& parts = communicator.collectives[part.number];
  parts.push_back(std::move(kept));
  if (static_cast<int>(parts.size()) < communicator.size) return;
  carry_out(parts);
  communicator.collectives.erase(part.number);
}

}  // namespace fake
