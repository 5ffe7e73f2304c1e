#include "engines/mpi/operations.h"

#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "engines/mpi/library.h"
#include "unisono/engine.h"

namespace unisono::engines::mpi {
namespace {

constexpr std::size_t dtypes = static_cast<std::size_t>(DType::complex128) + 1;
constexpr std::size_t ops = static_cast<std::size_t>(ReduceOp::lor) + 1;

/// MPI passes its operations only the datatype, so there is a function for every pair.
template <std::size_t Pair>
void apply(void* in, void* inout, int* count, MPI_Datatype*) {
  combine(static_cast<DType>(Pair / ops), static_cast<ReduceOp>(Pair % ops), inout, in, static_cast<std::size_t>(*count));
}

template <std::size_t... Pair>
constexpr auto functions(std::index_sequence<Pair...>) {
  return std::array<MPI_User_function*, sizeof...(Pair)>{&apply<Pair>...};
}

/// Returns an operation that is made once and kept.
MPI_Op own_op(DType dtype, ReduceOp op) {
  static constexpr auto table = functions(std::make_index_sequence<dtypes * ops>());
  static std::mutex mutex;
  static std::array<MPI_Op, table.size()> made;
  static std::array<std::atomic<bool>, table.size()> is_made;
  const std::size_t pair = static_cast<std::size_t>(dtype) * ops + static_cast<std::size_t>(op);
  if (is_made[pair].load(std::memory_order_acquire)) [[likely]]
    return made[pair];
  const std::lock_guard lock(mutex);
  if (!is_made[pair].load(std::memory_order_relaxed)) {
    // A product of complex numbers may differ in the last bit when the factors change places, and ranks would get different results: MPI must keep
    // their order.
    const bool commutes = !(op == ReduceOp::product && dtype >= DType::complex64);
    check(MPI_Op_create(table[pair], commutes ? 1 : 0, &made[pair]), "MPI_Op_create");
    is_made[pair].store(true, std::memory_order_release);
  }
  return made[pair];
}

}  // namespace

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::uint8: return MPI_UINT8_T;
    case DType::int8: return MPI_INT8_T;
    case DType::int16: return MPI_INT16_T;
    case DType::int32: return MPI_INT32_T;
    case DType::int64: return MPI_INT64_T;
    case DType::float16:
    case DType::bfloat16:
    case DType::uint16: return MPI_UINT16_T;
    case DType::uint32: return MPI_UINT32_T;
    case DType::uint64: return MPI_UINT64_T;
    case DType::float32: return MPI_FLOAT;
    case DType::float64: return MPI_DOUBLE;
    case DType::complex64: return MPI_C_FLOAT_COMPLEX;
    case DType::complex128: return MPI_C_DOUBLE_COMPLEX;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op op_of(DType dtype, ReduceOp op) {
  // MPI's own operations are not used. Their bits differ from ours (NaN), and some are wrong: Open MPI 4.1.4 adds int8 wrongly with its vector
  // instructions, MPICH 4.0.2 takes the minimum of uint8 as if they had signs.
  return own_op(dtype, op == ReduceOp::avg ? ReduceOp::sum : op);  // an average is divided afterwards
}

}  // namespace unisono::engines::mpi
