#include "harness/operations.h"

#include <algorithm>
#include <array>
#include <limits>

namespace unisono::bench {

namespace {

constexpr std::array measured_operations = {Operation::all_reduce,     Operation::broadcast,        Operation::reduce,       Operation::all_gather,
                                            Operation::reduce_scatter, Operation::all_to_all,       Operation::gather,       Operation::scatter,
                                            Operation::barrier,        Operation::send_recv,        Operation::ping_pong,    Operation::bandwidth,
                                            Operation::bidirectional,  Operation::message_rate,     Operation::all_gather_v, Operation::gather_v,
                                            Operation::scatter_v,      Operation::reduce_scatter_v, Operation::all_to_all_v};

// Messages of a window lie behind each other while they take so much; larger ones share their place, so that a window of the largest fits into
// memory.
constexpr std::size_t most_window_bytes = std::size_t{1} << 20;
constexpr std::size_t most_small_bytes = 4096;

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
    case Operation::all_gather_v: return "all_gather_v";
    case Operation::reduce_scatter_v: return "reduce_scatter_v";
    case Operation::all_to_all_v: return "all_to_all_v";
    case Operation::gather_v: return "gather_v";
    case Operation::scatter_v: return "scatter_v";
    case Operation::ping_pong: return "ping_pong";
    case Operation::bandwidth: return "bandwidth";
    case Operation::bidirectional: return "bidirectional";
    case Operation::message_rate: return "message_rate";
    case Operation::copy: return "copy";
  }
  return "";
}

std::span<const Operation> operations() noexcept { return measured_operations; }

std::optional<Operation> parse_operation(std::string_view text) noexcept {
  const auto* found = std::ranges::find(measured_operations, text, [](Operation o) { return to_string(o); });
  return found == measured_operations.end() ? std::nullopt : std::optional(*found);
}

Shape shape_of(Operation operation, int ranks, std::size_t bytes, std::size_t element_size, int rank) {
  const std::size_t whole = std::max<std::size_t>(1, bytes / element_size);
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t block = std::max<std::size_t>(1, whole / n);
  const std::size_t all = std::max(whole, n);
  switch (operation) {
    case Operation::all_gather:
    case Operation::gather: return {.in = block, .out = block * n, .size = block * n};
    case Operation::reduce_scatter:
    case Operation::scatter: return {.in = block * n, .out = block, .size = block * n};
    case Operation::all_to_all: return {.in = block * n, .out = block * n, .size = block * n};
    case Operation::all_gather_v:
    case Operation::gather_v: return {.in = uneven_blocks(all, ranks)[static_cast<std::size_t>(rank)], .out = all, .size = all};
    case Operation::reduce_scatter_v:
    case Operation::scatter_v: return {.in = all, .out = uneven_blocks(all, ranks)[static_cast<std::size_t>(rank)], .size = all};
    case Operation::all_to_all_v: return {.in = all, .out = all, .size = all};
    case Operation::bandwidth:
    case Operation::bidirectional:
    case Operation::message_rate: {
      const std::size_t places = std::clamp<std::size_t>(most_window_bytes / (whole * element_size), 1, window);
      return {.in = whole * places, .out = whole * places, .size = whole};
    }
    case Operation::barrier: return {};
    default: return {.in = whole, .out = whole, .size = whole};
  }
}

std::size_t bytes_of(const Shape& shape, std::size_t element_size) noexcept { return shape.size * element_size; }

std::vector<std::size_t> uneven_blocks(std::size_t elements, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t rest = elements - std::min(elements, n), parts = n * (n + 1) / 2;
  const auto before = [&](std::size_t rank) { return rest * (rank * (rank + 1) / 2) / parts; };
  std::vector<std::size_t> blocks(n);
  for (std::size_t r = 0; r < n; ++r) blocks[r] = 1 + before(r + 1) - before(r);
  return blocks;
}

std::vector<std::size_t> uneven_exchange(std::size_t elements, int ranks, int rank) {
  std::vector<std::size_t> blocks = uneven_blocks(elements, ranks);
  std::ranges::rotate(blocks, blocks.begin() + rank);
  return blocks;
}

bool is_windowed(Operation operation) noexcept {
  return operation == Operation::bandwidth || operation == Operation::bidirectional || operation == Operation::message_rate;
}

bool is_in_pairs(Operation operation) noexcept { return operation == Operation::ping_pong || is_windowed(operation); }

std::optional<int> partner_of(int rank, int ranks) noexcept {
  const int partner = rank % 2 == 0 ? rank + 1 : rank - 1;
  return partner < ranks ? std::optional(partner) : std::nullopt;
}

bool sends_in_window(Operation operation, int rank) noexcept { return operation == Operation::bidirectional || rank % 2 == 0; }

bool receives_in_window(Operation operation, int rank) noexcept { return operation == Operation::bidirectional || rank % 2 == 1; }

std::size_t messages_of(Operation operation) noexcept {
  if (operation == Operation::ping_pong) return 2;
  return is_windowed(operation) ? window : 1;
}

std::size_t most_bytes_of(Operation operation) noexcept {
  return operation == Operation::message_rate ? most_small_bytes : std::numeric_limits<std::size_t>::max();
}

double bus_factor(Operation operation, int ranks) noexcept {
  const double n = ranks;
  switch (operation) {
    case Operation::all_reduce: return 2 * (n - 1) / n;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_gather_v:
    case Operation::reduce_scatter_v:
    case Operation::all_to_all_v:
    case Operation::gather_v:
    case Operation::scatter_v: return (n - 1) / n;
    case Operation::bidirectional: return 2;
    default: return 1;
  }
}

bool moves_as_much_as_a_copy(Operation operation) noexcept {
  switch (operation) {
    case Operation::all_reduce:
    case Operation::all_to_all:
    case Operation::all_to_all_v:
    case Operation::send_recv:
    case Operation::bidirectional:
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
    case Operation::all_gather_v:
    case Operation::reduce_scatter_v:
    case Operation::all_to_all_v:
    case Operation::barrier:
    // In pairs both wait for the other. Pairs do not wait for each other, and each times its own calls.
    case Operation::ping_pong:
    case Operation::bandwidth:
    case Operation::bidirectional:
    case Operation::message_rate:
    case Operation::copy: return true;
    case Operation::send_recv: return ranks == 2;  // in a longer ring a rank waits for its left neighbour only
    default: return false;
  }
}

bool one_buffer(Operation operation) noexcept { return operation == Operation::broadcast || operation == Operation::reduce; }

bool root_only(Operation operation) noexcept {
  return operation == Operation::reduce || operation == Operation::gather || operation == Operation::gather_v;
}

}  // namespace unisono::bench
