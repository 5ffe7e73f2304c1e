#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace unisono::bench {

/// What is measured. `copy` is the roofline: each rank copies its bytes, nobody talks to anybody.
enum class Operation { all_reduce, broadcast, reduce, all_gather, reduce_scatter, all_to_all, gather, scatter, barrier, send_recv, copy };

std::string_view to_string(Operation operation) noexcept;
/// Every operation but copy, which nobody asks for by name.
std::span<const Operation> operations() noexcept;
std::optional<Operation> parse_operation(std::string_view text) noexcept;

/// How many elements a rank hands in and gets out (of rooted operations: what the root does).
struct Shape {
  std::size_t in = 0;
  std::size_t out = 0;
};

/// The shape whose larger buffer comes nearest to `bytes`: never empty, whole blocks per rank.
Shape shape_of(Operation operation, int ranks, std::size_t bytes, std::size_t element_size) noexcept;
/// The larger of the two buffers, in bytes: what algbw counts.
std::size_t bytes_of(const Shape& shape, std::size_t element_size) noexcept;
/// busbw = algbw × this factor: what the links between the ranks would have to carry.
double bus_factor(Operation operation, int ranks) noexcept;

/// No rank leaves one call before all have entered it, so calls timed in a batch cannot overlap on different ranks.
bool synchronises(Operation operation, int ranks) noexcept;
/// The data is worked on where it lies (one buffer), also when out of place is asked for.
bool one_buffer(Operation operation) noexcept;
/// It reads and writes as much memory, over all ranks, as copying its bytes on every rank does: the roofline is a bound of its time.
bool moves_as_much_as_a_copy(Operation operation) noexcept;
/// Only rank 0 gets a result.
bool root_only(Operation operation) noexcept;

}  // namespace unisono::bench
