#include "harness/operations.h"

#include <algorithm>
#include <array>
#include <limits>

namespace unisono::bench {

namespace {

/// The patterns' names, by value.
constexpr std::array<std::string_view, 7> pattern_names{"", "send_recv", "ping_pong", "bandwidth", "bidirectional", "message_rate", "copy"};

// Messages of a window lie behind each other while they take so much; larger ones share their place, so that a window of the largest fits into
// memory.
constexpr std::size_t most_window_bytes = std::size_t{1} << 20;
constexpr std::size_t most_small_bytes = 4096;

}  // namespace

std::string_view to_string(Operation operation) noexcept {
  const OperationTraits* const traits = operation.traits();
  return traits != nullptr ? traits->name : pattern_names[static_cast<std::size_t>(operation.pattern())];
}

std::span<const Operation> operations() noexcept {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> measured;
    for (const OperationTraits& row : operation_table)
      if (!is_message(row.operation)) measured.emplace_back(row.operation);
    for (std::size_t i = 1; i + 1 < pattern_names.size(); ++i) measured.emplace_back(static_cast<MessagePattern>(i));
    return measured;
  }();
  return all;
}

std::optional<Operation> parse_operation(std::string_view text) noexcept {
  const auto found = std::ranges::find(operations(), text, [](Operation o) { return to_string(o); });
  return found == operations().end() ? std::nullopt : std::optional(*found);
}

Shape shape_of(Operation operation, int ranks, std::size_t bytes, std::size_t element_size, int rank) {
  const std::size_t whole = std::max<std::size_t>(1, bytes / element_size);
  if (is_windowed(operation)) {
    const std::size_t places = std::clamp<std::size_t>(most_window_bytes / (whole * element_size), 1, window);
    return {.in = whole * places, .out = whole * places, .size = whole};
  }
  const OperationTraits* const traits = operation.traits();
  if (traits != nullptr && traits->in == Layout::nothing) return {};
  if (traits == nullptr || traits->in == Layout::whole) return {.in = whole, .out = whole, .size = whole};
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t block = std::max<std::size_t>(1, whole / n), all = traits->has_counts ? std::max(whole, n) : block * n;
  const std::size_t own = traits->has_counts ? uneven_blocks(all, ranks)[static_cast<std::size_t>(rank)] : block;
  return {.in = traits->in == Layout::blocks ? all : own, .out = traits->out == Layout::blocks ? all : own, .size = all};
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

std::vector<std::size_t> counts_of(Operation operation, std::size_t elements, int ranks, int rank) {
  const OperationTraits* const traits = operation.traits();
  if (traits == nullptr || !traits->has_counts) return {};
  return traits->in == traits->out ? uneven_exchange(elements, ranks, rank) : uneven_blocks(elements, ranks);
}

bool is_windowed(Operation operation) noexcept {
  return operation == Operation::bandwidth || operation == Operation::bidirectional || operation == Operation::message_rate;
}

bool is_in_pairs(Operation operation) noexcept { return operation == Operation::ping_pong || is_windowed(operation); }

std::optional<int> partner_of(int rank, int ranks) noexcept {
  const int partner = rank % 2 == 0 ? rank + 1 : rank - 1;
  return partner < ranks ? std::optional(partner) : std::nullopt;
}

std::optional<int> sender_to(Operation operation, int rank, int ranks) noexcept {
  if (operation == Operation::copy) return rank;
  if (operation == Operation::send_recv) return (rank + ranks - 1) % ranks;
  return !is_windowed(operation) || receives_in_window(operation, rank) ? partner_of(rank, ranks) : std::nullopt;
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
  const OperationTraits* const traits = operation.traits();
  const double n = ranks;
  if (traits == nullptr) return operation == Operation::bidirectional ? 2 : 1;
  if (traits->in == Layout::blocks || traits->out == Layout::blocks) return (n - 1) / n;
  return traits->reduces && is_from_all_to_all(*traits) ? 2 * (n - 1) / n : 1;
}

// In the other operations most ranks have a smaller input or output than the size says, or none, and all may read the same.
bool moves_as_much_as_a_copy(Operation operation) noexcept {
  if (const OperationTraits* const traits = operation.traits(); traits != nullptr)
    return is_from_all_to_all(*traits) && traits->in == traits->out && traits->in != Layout::nothing;
  return operation == Operation::send_recv || operation == Operation::bidirectional || operation == Operation::copy;
}

// In pairs both wait for the other. Pairs do not wait for each other, and each times its own calls.
bool synchronises(Operation operation, int ranks) noexcept {
  if (const OperationTraits* const traits = operation.traits(); traits != nullptr) return is_from_all_to_all(*traits);
  return operation != Operation::send_recv || ranks == 2;  // in a longer ring a rank waits for its left neighbour only
}

bool one_buffer(Operation operation) noexcept {
  const OperationTraits* const traits = operation.traits();
  return traits != nullptr && traits->in == Layout::whole && operation != Operation::all_reduce;  // which alone has a form with two
}

bool root_only(Operation operation) noexcept {
  const OperationTraits* const traits = operation.traits();
  return traits != nullptr && traits->receivers == Participants::root;
}

}  // namespace unisono::bench
