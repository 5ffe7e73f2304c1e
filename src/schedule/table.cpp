// The table of algorithms.
#include <array>
#include <utility>

#include "schedule/selection.h"

namespace unisono::schedule {
namespace {

using namespace algorithms;

bool always(const Problem&, const Setting&) { return true; }

using Op = Operation;

// The rows of an operation stand together. Where the engine offers the collective as it stands it is taken; algorithms above it are preferred to it
// from `at_least_bytes_on_two_levels` on. Else the cheapest algorithm that can be used is taken, the first one of those that cost the same.
constexpr Algorithm algorithm_table[] = {
    {Op::all_reduce, "two_levels", Order::hosts, can_two_levels, build_two_level_all_reduce, cost_two_level_all_reduce, true},
    {Op::all_reduce, "engine", Order::engine, can_engine, build_engine},
    {Op::all_reduce, "sum_and_divide", Order::engine, can_sum_and_divide, build_sum_and_divide},
    {Op::all_reduce, "everything", Order::once, always, build_all_reduce_everything, cost_all_reduce_everything},
    {Op::all_reduce, "shares", Order::once, always, build_all_reduce_shares, cost_all_reduce_shares},
    {Op::all_reduce, "recursive_doubling", Order::neighbours, can_send, build_all_reduce_recursive_doubling, cost_all_reduce_recursive_doubling},
    {Op::all_reduce, "halving_doubling", Order::neighbours, can_send, build_all_reduce_halving_doubling, cost_all_reduce_halving_doubling},
    {Op::all_reduce, "ring", Order::any, can_send, build_all_reduce_ring, cost_all_reduce_ring},
    {Op::all_reduce, "swing", Order::any, can_send, build_all_reduce_swing, cost_all_reduce_halving_doubling},
    {Op::reduce, "engine", Order::engine, can_engine, build_engine},
    {Op::reduce, "two_levels", Order::hosts, can_two_levels, build_two_level_reduce, cost_two_level_reduce, true},
    {Op::reduce, "sum_and_divide", Order::engine, can_sum_and_divide, build_sum_and_divide},
    {Op::reduce, "shares", Order::once, always, build_reduce_shares, cost_reduce_shares},
    {Op::reduce, "chain", Order::left_to_right, can_send, build_reduce_chain, cost_reduce_chain},
    {Op::reduce, "binomial", Order::neighbours, can_send, build_reduce_binomial, cost_reduce_binomial},
    {Op::reduce_scatter, "engine", Order::engine, can_engine, build_engine},
    {Op::reduce_scatter, "two_levels", Order::hosts, can_two_levels, build_two_level_reduce_scatter, cost_two_level_reduce_scatter, true},
    {Op::reduce_scatter, "sum_and_divide", Order::engine, can_sum_and_divide, build_sum_and_divide},
    {Op::reduce_scatter, "blocks", Order::once, always, build_reduce_scatter_blocks, cost_reduce_scatter_blocks},
    {Op::reduce_scatter, "halving", Order::any, can_send, build_reduce_scatter_halving, cost_reduce_scatter_halving},
    {Op::reduce_scatter, "ring", Order::any, can_send, build_reduce_scatter_ring, cost_reduce_scatter_ring},
    {Op::reduce_scatter_v, "engine", Order::engine, can_engine, build_engine},
    {Op::reduce_scatter_v, "two_levels", Order::hosts, can_two_levels, build_two_level_reduce_scatter, cost_two_level_reduce_scatter, true},
    {Op::reduce_scatter_v, "sum_and_divide", Order::engine, can_sum_and_divide, build_sum_and_divide},
    {Op::reduce_scatter_v, "blocks", Order::once, always, build_reduce_scatter_blocks, cost_reduce_scatter_blocks},
    {Op::reduce_scatter_v, "halving", Order::any, can_send, build_reduce_scatter_halving, cost_reduce_scatter_halving},
    {Op::reduce_scatter_v, "ring", Order::any, can_send, build_reduce_scatter_ring, cost_reduce_scatter_ring},
    {Op::scan, "engine", Order::engine, can_engine, build_engine},
    {Op::scan, "two_levels", Order::neighbours, can_two_level_scan, build_two_level_scan, cost_two_level_scan, true},
    {Op::scan, "shares", Order::once, always, build_scan_shares, cost_scan_shares},
    {Op::scan, "recursive_doubling", Order::neighbours, can_send, build_scan_recursive_doubling, cost_scan_recursive_doubling},
    {Op::exscan, "engine", Order::engine, can_engine, build_engine},
    {Op::exscan, "two_levels", Order::neighbours, can_two_level_scan, build_two_level_scan, cost_two_level_scan, true},
    {Op::exscan, "shares", Order::once, always, build_scan_shares, cost_scan_shares},
    {Op::exscan, "recursive_doubling", Order::neighbours, can_send, build_scan_recursive_doubling, cost_scan_recursive_doubling},
    {Op::broadcast, "two_levels", Order::none, can_two_levels, build_two_level_broadcast, cost_two_level_broadcast, true},
    {Op::broadcast, "engine", Order::none, can_engine, build_engine},
    {Op::broadcast, "exchange", Order::none, can_exchange, build_exchange, cost_exchange},
    {Op::broadcast, "binomial", Order::none, can_send, build_broadcast_binomial, cost_broadcast_binomial},
    {Op::broadcast, "scatter_all_gather", Order::none, can_send, build_broadcast_scatter_all_gather, cost_broadcast_scatter_all_gather},
    {Op::broadcast, "chain", Order::none, can_send, build_broadcast_chain, cost_broadcast_chain},
    {Op::broadcast, "all_to_all_v", Order::none, can_all_to_all_v, build_all_to_all_v, cost_exchange},
    {Op::all_gather, "engine", Order::none, can_engine, build_engine},
    {Op::all_gather, "two_levels", Order::none, can_two_levels, build_two_level_all_gather, cost_two_level_all_gather, true},
    {Op::all_gather, "exchange", Order::none, can_exchange, build_exchange, cost_exchange},
    {Op::all_gather, "bruck", Order::none, can_send, build_all_gather_bruck, cost_all_gather_bruck},
    {Op::all_gather, "recursive_doubling", Order::none, can_send, build_all_gather_recursive_doubling, cost_all_gather_recursive_doubling},
    {Op::all_gather, "ring", Order::none, can_send, build_all_gather_ring, cost_all_gather_ring},
    {Op::all_gather, "all_to_all_v", Order::none, can_all_to_all_v, build_all_to_all_v, cost_exchange},
    {Op::gather, "engine", Order::none, can_engine, build_engine},
    {Op::gather, "two_levels", Order::none, can_two_levels, build_two_level_gather, cost_two_level_gather, true},
    {Op::gather, "exchange", Order::none, can_exchange, build_exchange, cost_exchange},
    {Op::gather, "binomial", Order::none, can_send, build_gather_binomial, cost_gather_binomial},
    {Op::gather, "all_to_all_v", Order::none, can_all_to_all_v, build_all_to_all_v, cost_exchange},
    {Op::scatter, "engine", Order::none, can_engine, build_engine},
    {Op::scatter, "two_levels", Order::none, can_two_levels, build_two_level_scatter, cost_two_level_scatter, true},
    {Op::scatter, "exchange", Order::none, can_exchange, build_exchange, cost_exchange},
    {Op::scatter, "binomial", Order::none, can_send, build_scatter_binomial, cost_scatter_binomial},
    {Op::scatter, "all_to_all_v", Order::none, can_all_to_all_v, build_all_to_all_v, cost_exchange},
    {Op::all_to_all, "engine", Order::none, can_engine, build_engine},
    {Op::all_to_all, "two_levels", Order::none, can_two_levels, build_two_level_all_to_all, cost_two_level_all_to_all, true},
    {Op::all_to_all, "exchange", Order::none, can_exchange, build_exchange, cost_exchange},
    {Op::all_to_all, "bruck", Order::none, can_send, build_all_to_all_bruck, cost_all_to_all_bruck},
    {Op::all_to_all, "pairwise", Order::none, can_send, build_all_to_all_pairwise, cost_all_to_all_pairwise},
    {Op::all_to_all, "all_to_all_v", Order::none, can_all_to_all_v, build_all_to_all_v, cost_exchange},
    {Op::all_gather_v, "engine", Order::none, can_engine, build_engine},
    {Op::all_gather_v, "two_levels", Order::none, can_two_levels, build_two_level_all_gather, cost_two_level_all_gather, true},
    {Op::all_gather_v, "exchange", Order::none, can_exchange, build_exchange, cost_exchange},
    {Op::all_gather_v, "bruck", Order::none, can_send, build_all_gather_bruck, cost_all_gather_bruck},
    {Op::all_gather_v, "recursive_doubling", Order::none, can_send, build_all_gather_recursive_doubling, cost_all_gather_recursive_doubling},
    {Op::all_gather_v, "ring", Order::none, can_send, build_all_gather_ring, cost_all_gather_ring},
    {Op::all_gather_v, "all_to_all_v", Order::none, can_all_to_all_v, build_all_to_all_v, cost_exchange},
    {Op::gather_v, "engine", Order::none, can_engine, build_engine},
    {Op::gather_v, "two_levels", Order::none, can_two_levels, build_two_level_gather, cost_two_level_gather, true},
    {Op::gather_v, "exchange", Order::none, can_exchange, build_exchange, cost_exchange},
    {Op::gather_v, "binomial", Order::none, can_send, build_gather_binomial, cost_gather_binomial},
    {Op::gather_v, "all_to_all_v", Order::none, can_all_to_all_v, build_all_to_all_v, cost_exchange},
    {Op::scatter_v, "engine", Order::none, can_engine, build_engine},
    {Op::scatter_v, "two_levels", Order::none, can_two_levels, build_two_level_scatter, cost_two_level_scatter, true},
    {Op::scatter_v, "exchange", Order::none, can_exchange, build_exchange, cost_exchange},
    {Op::scatter_v, "binomial", Order::none, can_send, build_scatter_binomial, cost_scatter_binomial},
    {Op::scatter_v, "all_to_all_v", Order::none, can_all_to_all_v, build_all_to_all_v, cost_exchange},
    {Op::all_to_all_v, "engine", Order::none, can_engine, build_engine},
    {Op::all_to_all_v, "exchange", Order::none, can_exchange, build_exchange, cost_exchange},
    {Op::all_to_all_v, "pairwise", Order::none, can_send, build_all_to_all_pairwise, cost_all_to_all_pairwise},
};

/// The first row of each operation, by its value; and the end.
constexpr auto first_rows = [] {
  constexpr std::size_t values = static_cast<std::size_t>(operation_table.back().operation) + 1;
  std::array<std::pair<std::size_t, std::size_t>, values> found{};
  for (std::size_t i = 0; i < std::size(algorithm_table); ++i) {
    auto& [first, last] = found[static_cast<std::size_t>(algorithm_table[i].operation)];
    if (last == 0) first = i;
    last = i + 1;
  }
  return found;
}();

}  // namespace

std::span<const Algorithm> table() { return algorithm_table; }

std::span<const Algorithm> rows_of(Operation operation) {
  const auto [first, last] = first_rows[static_cast<std::size_t>(operation)];
  return std::span(algorithm_table).subspan(first, last - first);
}

}  // namespace unisono::schedule
