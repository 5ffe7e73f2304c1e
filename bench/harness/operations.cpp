#include "harness/operations.h"

#include <algorithm>
#include <array>

namespace unisono::bench {

namespace {

constexpr std::array measured_operations = {Operation::all_reduce,     Operation::broadcast,  Operation::reduce, Operation::all_gather,
                                            Operation::reduce_scatter, Operation::all_to_all, Operation::gather, Operation::scatter,
                                            Operation::barrier,        Operation::send_recv};

}  // namespace

std::string_view to_string(Operation operation) noexcept {
  switch (operation) {
    case Operation::all_reduce: return "all_reduce";
    case Operation::broadcast: return "broadcast";
    case Operation::reduce: return "reduce";
    case Operation::all_gather: return "all_gather";
    case Operation::reduce_scatter: return "reduce_scatter";
    case Operation::all_to_all: return "all_to_all";
    case Operation::gather: return "gather";
    case Operation::scatter: return "scatter";
    case Operation::barrier: return "barrier";
    case Operation::send_recv: return "send_recv";
    case Operation::copy: return "copy";
  }
  return "";
}

std::span<const Operation> operations() noexcept { return measured_operations; }

std::optional<Operation> parse_operation(std::string_view text) noexcept {
  const auto* found = std::ranges::find(measured_operations, text, [](Operation o) { return to_string(o); });
  return found == measured_operations.end() ? std::nullopt : std::optional(*found);
}

Shape shape_of(Operation operation, int ranks, std::size_t bytes, std::size_t element_size) noexcept {
  const std::size_t whole = std::max<std::size_t>(1, bytes / element_size);
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t block = std::max<std::size_t>(1, whole / n);
  switch (operation) {
    case Operation::all_gather:
    case Operation::gather: return {.in = block, .out = block * n};
    case Operation::reduce_scatter:
    case Operation::scatter: return {.in = block * n, .out = block};
    case Operation::all_to_all: return {.in = block * n, .out = block * n};
    case Operation::barrier: return {};
    default: return {.in = whole, .out = whole};
  }
}

std::size_t bytes_of(const Shape& shape, std::size_t element_size) noexcept { return std::max(shape.in, shape.out) * element_size; }

double bus_factor(Operation operation, int ranks) noexcept {
  const double n = ranks;
  switch (operation) {
    case Operation::all_reduce: return 2 * (n - 1) / n;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
    case Operation::gather:
    case Operation::scatter: return (n - 1) / n;
    default: return 1;
  }
}

bool moves_as_much_as_a_copy(Operation operation) noexcept {
  switch (operation) {
    case Operation::all_reduce:
    case Operation::all_to_all:
    case Operation::send_recv:
    case Operation::copy: return true;
    // In the other operations most ranks have a smaller input or output than the size says, or none, and all may read the same.
    default: return false;
  }
}

bool synchronises(Operation operation, int ranks) noexcept {
  switch (operation) {
    case Operation::all_reduce:
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
    case Operation::barrier:
    case Operation::copy: return true;
    case Operation::send_recv: return ranks == 2;  // in a longer ring a rank waits for its left neighbour only
    default: return false;
  }
}

bool one_buffer(Operation operation) noexcept { return operation == Operation::broadcast || operation == Operation::reduce; }

bool root_only(Operation operation) noexcept { return operation == Operation::reduce || operation == Operation::gather; }

}  // namespace unisono::bench
