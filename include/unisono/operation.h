#pragma once

#include <cstdint>
#include <string_view>

#include "unisono/export.h"

namespace unisono {

/// The operations that a backend is asked for. Values are on the wire.
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
UNISONO_API std::string_view to_string(Operation operation) noexcept;
/// Whether it combines elements, by a ReduceOp or a callable.
constexpr bool reduces(Operation operation) noexcept {
  return operation == Operation::all_reduce || operation == Operation::reduce || operation == Operation::reduce_scatter ||
         operation == Operation::scan || operation == Operation::exscan || operation == Operation::reduce_scatter_v;
}
/// Whether it works on blocks of different length.
constexpr bool has_counts(Operation operation) noexcept { return operation >= Operation::all_gather_v && operation <= Operation::all_to_all_v; }

}  // namespace unisono
