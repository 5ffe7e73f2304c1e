#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "unisono/export.h"

namespace unisono {

/// A collective operation, or one side of a message. The values are part of the wire format.
enum class Operation : std::uint8_t {
  barrier = 1,
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  gather,
  scatter,
  reduce_scatter,
  all_to_all,
  scan,
  exscan,
  send,
  recv,
  all_gather_v,
  gather_v,
  scatter_v,
  reduce_scatter_v,
  all_to_all_v,
};

/// The contents of a buffer of an operation.
enum class Layout : std::uint8_t {
  nothing,  ///< the operation has no such buffer
  whole,    ///< `count` elements that belong to no rank in particular
  block,    ///< the block of this rank
  blocks,   ///< the blocks of all ranks in group order, one behind the other
};

/// The ranks that give elements to an operation, or get elements from it.
enum class Participants : std::uint8_t {
  all_ranks,
  root,
  up_to_own,  ///< as senders: what a rank gets comes from the ranks up to itself
  below_own,  ///< as senders: what a rank gets comes from the ranks below it
};

/// The traits of an operation. Everything that depends on the kind of an operation reads this
/// table: the checks of a call, the schedules, the engines, the simulator, the bench, the bindings.
struct OperationTraits {
  Operation operation;
  std::string_view name;
  Layout in;               ///< what a rank that gives elements gives
  Layout out;              ///< what a rank that gets elements gets
  Participants senders;    ///< the ranks whose input counts
  Participants receivers;  ///< the ranks whose output is written
  bool reduces;            ///< elements of several ranks are combined, by a ReduceOp or a callable
  bool has_counts;         ///< the blocks differ in length: the call has a count for each rank
};

/// The table, in the order of the values of Operation.
inline constexpr std::array<OperationTraits, 18> operation_table{{
    {Operation::barrier, "barrier", Layout::nothing, Layout::nothing, Participants::all_ranks, Participants::all_ranks, false, false},
    {Operation::all_reduce, "all_reduce", Layout::whole, Layout::whole, Participants::all_ranks, Participants::all_ranks, true, false},
    {Operation::reduce, "reduce", Layout::whole, Layout::whole, Participants::all_ranks, Participants::root, true, false},
    {Operation::broadcast, "broadcast", Layout::whole, Layout::whole, Participants::root, Participants::all_ranks, false, false},
    {Operation::all_gather, "all_gather", Layout::block, Layout::blocks, Participants::all_ranks, Participants::all_ranks, false, false},
    {Operation::gather, "gather", Layout::block, Layout::blocks, Participants::all_ranks, Participants::root, false, false},
    {Operation::scatter, "scatter", Layout::blocks, Layout::block, Participants::root, Participants::all_ranks, false, false},
    {Operation::reduce_scatter, "reduce_scatter", Layout::blocks, Layout::block, Participants::all_ranks, Participants::all_ranks, true, false},
    {Operation::all_to_all, "all_to_all", Layout::blocks, Layout::blocks, Participants::all_ranks, Participants::all_ranks, false, false},
    {Operation::scan, "scan", Layout::whole, Layout::whole, Participants::up_to_own, Participants::all_ranks, true, false},
    {Operation::exscan, "exscan", Layout::whole, Layout::whole, Participants::below_own, Participants::all_ranks, true, false},
    {Operation::send, "send", Layout::whole, Layout::nothing, Participants::all_ranks, Participants::all_ranks, false, false},
    {Operation::recv, "recv", Layout::nothing, Layout::whole, Participants::all_ranks, Participants::all_ranks, false, false},
    {Operation::all_gather_v, "all_gather_v", Layout::block, Layout::blocks, Participants::all_ranks, Participants::all_ranks, false, true},
    {Operation::gather_v, "gather_v", Layout::block, Layout::blocks, Participants::all_ranks, Participants::root, false, true},
    {Operation::scatter_v, "scatter_v", Layout::blocks, Layout::block, Participants::root, Participants::all_ranks, false, true},
    {Operation::reduce_scatter_v, "reduce_scatter_v", Layout::blocks, Layout::block, Participants::all_ranks, Participants::all_ranks, true, true},
    {Operation::all_to_all_v, "all_to_all_v", Layout::blocks, Layout::blocks, Participants::all_ranks, Participants::all_ranks, false, true},
}};

namespace detail {

/// Throws InvalidArgument: the table has no such operation.
[[noreturn]] UNISONO_API void refuse_operation(Operation operation);

/// Returns the place of an operation in the table; behind its end for a value that is none.
constexpr std::size_t index_of(Operation operation) noexcept {
  return static_cast<std::size_t>(operation) - static_cast<std::size_t>(Operation::barrier);
}

}  // namespace detail

/// Returns the row of an operation. Throws InvalidArgument for a value that is not an operation.
constexpr const OperationTraits& traits_of(Operation operation) {
  const std::size_t index = detail::index_of(operation);
  if (index >= operation_table.size()) detail::refuse_operation(operation);
  return operation_table[index];
}
static_assert([] {
  for (const OperationTraits& row : operation_table) {
    if (&traits_of(row.operation) != &row) return false;
  }
  return true;
}());

/// Values for some of the operations: how an engine does its own ones, for instance. All other
/// operations have an empty value.
template <class Value>
class OperationMap {
 public:
  struct Entry {
    Operation operation;
    Value value;
  };
  constexpr OperationMap(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) values_[detail::index_of(entry.operation)] = entry.value;
  }
  constexpr Value operator[](Operation operation) const noexcept {
    const std::size_t index = detail::index_of(operation);
    return index < values_.size() ? values_[index] : Value{};
  }

 private:
  std::array<Value, operation_table.size()> values_{};
};

/// Returns the name of the operation's function: "all_reduce".
constexpr std::string_view to_string(Operation operation) noexcept {
  const std::size_t index = detail::index_of(operation);
  return index < operation_table.size() ? operation_table[index].name : "unknown operation";
}

/// Tells whether the operation combines the elements of several ranks.
constexpr bool reduces(Operation operation) { return traits_of(operation).reduces; }

/// Tells whether the blocks of the operation differ in length.
constexpr bool has_counts(Operation operation) { return traits_of(operation).has_counts; }

/// Tells whether a single rank, the root, has another part than the others.
constexpr bool has_root(Operation operation) {
  return traits_of(operation).senders == Participants::root || traits_of(operation).receivers == Participants::root;
}

/// Tells whether a rank, the root or another one, is among these.
constexpr bool takes_part(Participants participants, bool is_root) noexcept { return participants != Participants::root || is_root; }

/// The ranks of a call: how many there are, and the root; -1: none.
struct CallRanks {
  int size;
  int root;
};

/// Tells whether what rank `from` gives counts for what rank `to` gets.
constexpr bool contributes(const OperationTraits& traits, int from, int to, const CallRanks& ranks) noexcept {
  if (!takes_part(traits.receivers, to == ranks.root)) return false;
  switch (traits.senders) {
    case Participants::all_ranks: return true;
    case Participants::root: return from == ranks.root;
    case Participants::up_to_own: return from <= to;
    case Participants::below_own: return from < to;
  }
  return false;
}

/// Tells whether every rank gets elements of all ranks, so that none can end the call before all
/// have begun it.
constexpr bool is_from_all_to_all(const OperationTraits& traits) noexcept {
  return traits.senders == Participants::all_ranks && traits.receivers == Participants::all_ranks;
}

/// Tells whether the operation is a side of a message.
constexpr bool is_message(Operation operation) noexcept { return operation == Operation::send || operation == Operation::recv; }

/// Tells whether the operation combines the ranks up to each rank.
constexpr bool is_prefix(Operation operation) {
  return traits_of(operation).senders == Participants::up_to_own || traits_of(operation).senders == Participants::below_own;
}

}  // namespace unisono
