#include "engines/mpi/collective.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "unisono/engine.h"
#include "unisono/error.h"

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

/// Returns the datatype for elements. MPI has no 16-bit floats: these travel as integers of their size, and only our operations combine them.
MPI_Datatype type_of(DType dtype) {
  static const std::array<MPI_Datatype, dtypes> types{MPI_UINT8_T,  MPI_INT8_T,   MPI_INT16_T,  MPI_INT32_T,         MPI_INT64_T,
                                                      MPI_UINT8_T,  MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T,        MPI_UINT16_T,
                                                      MPI_UINT16_T, MPI_FLOAT,    MPI_DOUBLE,   MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX};
  return types[static_cast<std::size_t>(dtype)];
}

/// Returns the operation that combines elements, one of ours.
MPI_Op op_of(DType dtype, ReduceOp op) {
  // MPI's own operations are not used. Their bits differ from ours (NaN), and some are wrong: Open MPI 4.1.4 adds int8 wrongly with its vector
  // instructions, MPICH 4.0.2 takes the minimum of uint8 as if they had signs.
  return own_op(dtype, op == ReduceOp::avg ? ReduceOp::sum : op);  // an average is divided afterwards
}

constexpr auto most = static_cast<std::size_t>(std::numeric_limits<int>::max());
/// Elements of one MPI call of a collective that can be cut anywhere.
constexpr std::size_t piece_length = std::size_t{1} << 30;

/// Calls f with the beginning and the length of every piece.
template <class F>
void each_piece(std::size_t count, const F& f) {
  for (std::size_t begin = 0; begin < count; begin += piece_length) f(begin, static_cast<int>(std::min(piece_length, count - begin)));
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memmove(to, from, bytes);
}

}  // namespace

Collective::~Collective() {
  if (made_types_.empty()) return;
  int is_over = 0;
  MPI_Finalized(&is_over);
  if (is_over != 0) return;
  for (MPI_Datatype& type : made_types_) MPI_Type_free(&type);
}

template <class How>
constexpr auto Collective::own_operations() {
  return OperationMap<void (Collective::*)(const How&)>{
      {Operation::barrier, &Collective::barrier<How>},
      {Operation::all_reduce, &Collective::reduce_all<How>},
      {Operation::reduce, &Collective::reduce<How>},
      {Operation::broadcast, &Collective::broadcast<How>},
      {Operation::scan, &Collective::scan<How>},
      {Operation::exscan, &Collective::scan<How>},
      {Operation::reduce_scatter, &Collective::reduce_scatter<How>},
      {Operation::reduce_scatter_v, &Collective::reduce_scatter<How>},
      {Operation::all_gather, &Collective::move_blocks<How>},
      {Operation::all_gather_v, &Collective::move_blocks<How>},
      {Operation::gather, &Collective::move_blocks<How>},
      {Operation::gather_v, &Collective::move_blocks<How>},
      {Operation::scatter, &Collective::move_blocks<How>},
      {Operation::scatter_v, &Collective::move_blocks<How>},
      {Operation::all_to_all, &Collective::exchange<How>},
      {Operation::all_to_all_v, &Collective::exchange<How>},
  };
}

bool Collective::has(Operation operation) {
  static constexpr auto operations = own_operations<Blocking>();
  return operations[operation] != nullptr;
}

bool Collective::has(ReduceOp op) { return static_cast<std::size_t>(op) < ops; }

template <class How>
void Collective::issue(const How& how) {
  static constexpr auto operations = own_operations<How>();
  const auto carry_out = operations[call_.operation];
  if (carry_out == nullptr) throw Unsupported(fmt::format("engine mpi has no {}", name_of(call_)));
  (this->*carry_out)(how);
}

template void Collective::issue(const Blocking&);
template void Collective::issue(const Nonblocking&);

std::size_t Collective::total() const {
  return call_.counts.size() != 0 ? call_.counts.total() : call_.count * static_cast<std::size_t>(members_.size);
}

void Collective::lay_out() {
  int offset = 0;
  for (int r = 0; r < members_.size; ++r) {
    counts_.push_back(static_cast<int>(block(r)));
    offsets_.push_back(offset);
    offset += counts_.back();
  }
}

void Collective::barrier(const auto& how) { how(MPI_Barrier, MPI_Ibarrier, "MPI_Barrier", members_.comm); }

// ---- reductions -----------------------------------------------------------------------------------------------

void Collective::reduce_all(const auto& how) {
  const DType dtype = call_.in.dtype();
  each_piece(call_.count, [&](std::size_t begin, int n) {
    const std::byte* from = in() + bytes(begin);
    std::byte* to = out() + bytes(begin);
    how(MPI_Allreduce, MPI_Iallreduce, "MPI_Allreduce", from == to ? MPI_IN_PLACE : static_cast<const void*>(from), static_cast<void*>(to), n,
        type_of(dtype), op_of(dtype, call_.op), members_.comm);
  });
}

void Collective::reduce(const auto& how) { reduce_to(how, call_.root, in(), out(), call_.count); }

void Collective::reduce_to(const auto& how, int root, const std::byte* from, std::byte* to, std::size_t count) {
  const DType dtype = call_.in.dtype();
  const bool ours = members_.rank == root;
  // MPICH 4.0 takes MPI_IN_PLACE for an address where the root is not the first rank of its host.
  if (ours && from == to && kind == "mpich" && root != 0) {
    input_.assign(from, from + bytes(count));
    from = input_.data();
  }
  each_piece(count, [&](std::size_t begin, int n) {
    const void* input = ours && from == to ? MPI_IN_PLACE : static_cast<const void*>(from + bytes(begin));
    how(MPI_Reduce, MPI_Ireduce, "MPI_Reduce", input, static_cast<void*>(ours ? to + bytes(begin) : nullptr), n, type_of(dtype),
        op_of(dtype, call_.op), root, members_.comm);
  });
}

void Collective::scan(const auto& how) {
  const DType dtype = call_.in.dtype();
  const bool exclusive = call_.operation == Operation::exscan;
  // Rank 0's output of an exscan stays as it is. MPI leaves it undefined, and may write there.
  const bool aside = exclusive && members_.rank == 0;
  if (aside) staged_.resize(bytes(std::min(call_.count, piece_length)));
  each_piece(call_.count, [&](std::size_t begin, int n) {
    const std::byte* from = in() + bytes(begin);
    std::byte* to = aside ? staged_.data() : out() + bytes(begin);
    const void* input = from == to ? MPI_IN_PLACE : static_cast<const void*>(from);
    const auto issue = [&](auto* blocking, auto* nonblocking, const char* name) {
      how(blocking, nonblocking, name, input, static_cast<void*>(to), n, type_of(dtype), op_of(dtype, call_.op), members_.comm);
    };
    exclusive ? issue(MPI_Exscan, MPI_Iexscan, "MPI_Exscan") : issue(MPI_Scan, MPI_Iscan, "MPI_Scan");
  });
}

void Collective::reduce_scatter(const auto& how) {
  const DType dtype = call_.in.dtype();
  const std::size_t own = block(members_.rank);
  const std::byte* const end = in() + bytes(total());
  const bool overlaps = own != 0 && out() < end && in() < out() + bytes(own);
  if (overlaps) staged_.resize(bytes(own));
  // MPI compares this address with the input's even where nothing is written to it.
  static std::byte nowhere;
  std::byte* const to = overlaps ? staged_.data() : own == 0 ? &nowhere : out();
  if (total() == 0) return;
  if (total() > most) {
    std::size_t begin = 0;
    for (int r = 0; r < members_.size; begin += block(r++)) reduce_to(how, r, in() + bytes(begin), to, block(r));
    return;
  }
  if (call_.operation == Operation::reduce_scatter) {
    how(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, "MPI_Reduce_scatter_block", static_cast<const void*>(in()), static_cast<void*>(to),
        static_cast<int>(call_.count), type_of(dtype), op_of(dtype, call_.op), members_.comm);
  } else {
    lay_out();
    how(MPI_Reduce_scatter, MPI_Ireduce_scatter, "MPI_Reduce_scatter", static_cast<const void*>(in()), static_cast<void*>(to),
        static_cast<const int*>(counts_.data()), type_of(dtype), op_of(dtype, call_.op), members_.comm);
  }
}

void Collective::finish() {
  if (call_.operation == Operation::exscan && members_.rank == 0) return copy_bytes(out(), in(), bytes(call_.count));
  if (!staged_.empty()) copy_bytes(out(), staged_.data(), staged_.size());
  if (reduces(call_.operation) && call_.op == ReduceOp::avg && takes_part(traits_of(call_.operation).receivers, is_root()))
    divide(call_.out.dtype(), out(), static_cast<std::size_t>(call_.out.numel()), members_.size);
}

// ---- movement -----------------------------------------------------------------------------------------------

void Collective::broadcast(const auto& how) {
  std::byte* const memory = is_root() ? in() : out();
  each_piece(call_.count, [&](std::size_t begin, int n) {
    how(MPI_Bcast, MPI_Ibcast, "MPI_Bcast", static_cast<void*>(memory + bytes(begin)), n, type_of(call_.in.dtype()), call_.root, members_.comm);
  });
  if (is_root() && call_.out.numel() != 0) copy_bytes(out(), in(), bytes(call_.count));
}

void Collective::move_blocks(const auto& how) {
  if (total() == 0) return;
  if (total() > most) return exchange(how);
  lay_out();
  const auto self = static_cast<std::size_t>(members_.rank);
  const int own = counts_[self];
  const int *const counts = counts_.data(), *const offsets = offsets_.data();
  const MPI_Datatype type = type_of(call_.in.dtype());
  const MPI_Comm comm = members_.comm;
  const bool scatters = call_.operation == Operation::scatter || call_.operation == Operation::scatter_v;
  const bool has_all = is_root() || call_.operation == Operation::all_gather || call_.operation == Operation::all_gather_v;
  const std::byte* const place = (scatters ? in() : out()) + bytes(static_cast<std::size_t>(offsets[self]));  // of the own block, among all
  const bool in_place = has_all && place == (scatters ? out() : in());
  const void* const input = scatters ? (has_all ? in() : nullptr) : in_place ? MPI_IN_PLACE : static_cast<const void*>(in());
  void* const output = !scatters ? (has_all ? out() : nullptr) : in_place ? MPI_IN_PLACE : static_cast<void*>(out());
  if (call_.operation == Operation::all_gather) return how(MPI_Allgather, MPI_Iallgather, "MPI_Allgather", input, own, type, output, own, type, comm);
  if (call_.operation == Operation::all_gather_v)
    return how(MPI_Allgatherv, MPI_Iallgatherv, "MPI_Allgatherv", input, own, type, output, counts, offsets, type, comm);
  if (call_.operation == Operation::gather) return how(MPI_Gather, MPI_Igather, "MPI_Gather", input, own, type, output, own, type, call_.root, comm);
  if (call_.operation == Operation::gather_v)
    return how(MPI_Gatherv, MPI_Igatherv, "MPI_Gatherv", input, own, type, output, counts, offsets, type, call_.root, comm);
  if (call_.operation == Operation::scatter)
    return how(MPI_Scatter, MPI_Iscatter, "MPI_Scatter", input, own, type, output, own, type, call_.root, comm);
  how(MPI_Scatterv, MPI_Iscatterv, "MPI_Scatterv", input, counts, offsets, type, output, own, type, call_.root, comm);
}
// ---- exchanges between all ranks ----------------------------------------------------------------------------

Collective::Part Collective::part(std::size_t begin, std::size_t count, int shift) {
  const MPI_Datatype element = type_of(call_.in.dtype());
  if (count == 0) return {0, 0, element};
  if (count <= most && bytes(begin) <= most) return {static_cast<int>(count), static_cast<int>(bytes(begin)) - shift, element};
  // The datatype contains the offset: it consists of pieces of int length at offsets of any size.
  std::vector<int> lengths;
  std::vector<MPI_Aint> offsets;
  each_piece(count, [&](std::size_t piece, int n) {
    lengths.push_back(n);
    offsets.push_back(static_cast<MPI_Aint>(bytes(begin + piece)) - shift);
  });
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check(MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), offsets.data(), element, &type), "MPI_Type_create_hindexed");
  made_types_.push_back(type);
  check(MPI_Type_commit(&made_types_.back()), "MPI_Type_commit");
  return {1, 0, made_types_.back()};
}

void Collective::add(bool sends, const Part& part) {
  (sends ? send_counts_ : recv_counts_).push_back(part.count);
  (sends ? send_offsets_ : recv_offsets_).push_back(part.offset);
  (sends ? send_types_ : recv_types_).push_back(part.type);
}

// Carries out all_to_all_v, whose ranks do not know each other's lengths, and every collective that is too long for MPI's own call. All ranks use the
// same one then.
void Collective::exchange(const auto& how) {
  const OperationTraits& traits = traits_of(call_.operation);
  if (call_.operation == Operation::all_to_all && total() == 0) return;
  const CallRanks all{members_.size, call_.root};
  const bool has_own_counts = call_.operation == Operation::all_to_all_v;
  // Open MPI takes equal addresses for MPI_IN_PLACE, which has another meaning. So the input is addressed from one byte further on.
  const int shift = in() == out() && in() != nullptr ? 1 : 0;
  std::size_t sent = 0, received = 0;
  for (int r = 0; r < members_.size; ++r) {
    // The elements from this rank to r, and from r to this rank: a block is that of the rank whose input or output consists of it.
    const bool gives = contributes(traits, members_.rank, r, all), takes = contributes(traits, r, members_.rank, all);
    const std::size_t giving = gives ? block(traits.in == Layout::blocks ? r : members_.rank) : 0;
    const Counts& counts = has_own_counts ? call_.recv_counts : call_.counts;
    const std::size_t taking = takes ? block(counts, traits.out == Layout::blocks ? r : members_.rank) : 0;
    const std::size_t from = traits.in == Layout::blocks ? sent : 0;
    const std::size_t into = traits.out == Layout::blocks ? received : 0;
    if (r == members_.rank) {
      copy_bytes(out() + bytes(into), in() + bytes(from), bytes(std::min(giving, taking)));
      add(true, part(0, 0, 0));
      add(false, part(0, 0, 0));
    } else {
      add(true, part(from, giving, shift));
      add(false, part(into, taking, 0));
    }
    sent += giving;
    received += taking;
  }
  how(MPI_Alltoallw, MPI_Ialltoallw, "MPI_Alltoallw", static_cast<const void*>(in() + shift), static_cast<const int*>(send_counts_.data()),
      static_cast<const int*>(send_offsets_.data()), static_cast<const MPI_Datatype*>(send_types_.data()), static_cast<void*>(out()),
      static_cast<const int*>(recv_counts_.data()), static_cast<const int*>(recv_offsets_.data()),
      static_cast<const MPI_Datatype*>(recv_types_.data()), members_.comm);
}

}  // namespace unisono::engines::mpi
