#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace unisono::bench {

/// The operations that are measured. `copy` is the roofline: each rank copies its bytes without communication.
enum class Operation { all_reduce, broadcast, reduce, all_gather, reduce_scatter, all_to_all, gather, scatter, barrier, send_recv, copy };

std::string_view to_string(Operation operation) noexcept;
/// Returns every operation but copy, which has no name on the command line.
std::span<const Operation> operations() noexcept;
std::optional<Operation> parse_operation(std::string_view text) noexcept;

/// The number of elements that a rank hands in and gets out; the root's numbers for rooted operations.
struct Shape {
  std::size_t in = 0;
  std::size_t out = 0;
};

/// Returns the shape whose larger buffer comes nearest to `bytes`: never empty, whole blocks per rank.
Shape shape_of(Operation operation, int ranks, std::size_t bytes, std::size_t element_size) noexcept;
/// Returns the size of the larger buffer in bytes, on which algbw is based.
std::size_t bytes_of(const Shape& shape, std::size_t element_size) noexcept;
/// Returns the factor with busbw = algbw × factor, which stands for the traffic on the links between the ranks.
double bus_factor(Operation operation, int ranks) noexcept;

/// Tells whether no rank leaves a call before all have entered it, so that calls timed in a batch cannot overlap on different ranks.
bool synchronises(Operation operation, int ranks) noexcept;
/// Tells whether the data stays in one buffer, even if out of place is asked for.
bool one_buffer(Operation operation) noexcept;
/// Tells whether all ranks together read and write as much memory as copying the bytes on every rank does, so that the roofline bounds the time.
bool moves_as_much_as_a_copy(Operation operation) noexcept;
/// Tells whether only rank 0 gets a result.
bool root_only(Operation operation) noexcept;

}  // namespace unisono::bench
