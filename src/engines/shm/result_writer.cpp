#include "engines/shm/result_writer.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/processors.h"
#include "unisono/error.h"

namespace unisono::engines::shm {
namespace {

bool only_the_root_receives(Operation operation) {
  return operation == Operation::reduce || operation == Operation::gather || operation == Operation::gather_v;
}

}  // namespace

// By rule: measured on the machines of docs/design/performance.md. With a third-level cache of 32 second-level ones, past the caches is slower for 8
// of these, and faster from 16 on; with one of 130, slower for 16 and faster for 64.
std::size_t streams_from(const base::Environment& environment) {
  constexpr const char* variable = "UNISONO_STREAM_FROM";
  constexpr std::size_t fewest = 16, most = 32, share = 4;
  const std::size_t second = base::second_level_cache();
  if (!environment.get(variable)) return std::clamp(base::third_level_cache() / share, fewest * second, most * second);
  const int from = *environment.get_int(variable);
  if (from < 0) throw InvalidArgument(fmt::format("environment variable {} is negative: {}", variable, from));
  return static_cast<std::size_t>(from) << 10;
}

// A result that takes the place of an input lies in the caches when it is written.
bool ResultWriter::pays(const CollectiveCall& call, int rank, std::size_t from) {
  if (call.custom || (call.in.data() == call.out.data() && reduces(call.operation))) return false;
  return !only_the_root_receives(call.operation) || (rank == call.root && call.out.bytes() >= from);
}

void ResultWriter::combine_streaming(void* out, const void* const* inputs, int fan_in, std::size_t count, const CollectiveCall& call, int divisor) {
  constexpr std::size_t chunk_bytes = std::size_t{16} << 10;  // stays in the first-level cache with its inputs
  alignas(64) std::array<std::byte, chunk_bytes> chunk;
  const std::size_t element = size_of(call.in.dtype());
  const Pieces pieces(count, chunk_bytes / element);
  InputList at(fan_in);
  for (std::size_t k = 0; count != 0 && k < pieces.count(); ++k) {
    const Range piece = pieces[k];
    for (int r = 0; r < fan_in; ++r) at[r] = static_cast<const std::byte*>(inputs[r]) + piece.begin * element;
    shm::combine(chunk.data(), at.data(), fan_in, piece.size(), call, divisor);
    kernels::copy_streaming(static_cast<std::byte*>(out) + piece.begin * element, chunk.data(), piece.size() * element);
  }
}

}  // namespace unisono::engines::shm
