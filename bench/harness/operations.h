#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "unisono/operation.h"

namespace unisono::bench {

/// The patterns that are measured beside the collectives. From ping_pong to message_rate the ranks send messages in pairs: 0 and 1, 2 and 3, and so
/// on. A last rank without a partner sends nothing.
enum class MessagePattern : std::uint8_t {
  none,           ///< a collective
  send_recv,      ///< a message to the next rank, and one from the rank before
  ping_pong,      ///< a message there, then one back
  bandwidth,      ///< a window of messages from the even to the odd rank, which answers once it has all
  bidirectional,  ///< a window in both directions at once
  message_rate,   ///< as bandwidth, of small messages only
  copy,           ///< the roofline: each rank copies its bytes without communication
};

/// The thing that is measured: a collective of the library's table of operations, or a pattern.
class Operation {
 public:
  using enum unisono::Operation;
  using enum MessagePattern;
  constexpr Operation() = default;
  constexpr Operation(unisono::Operation collective) noexcept : collective_(collective) {}  // NOLINT(google-explicit-constructor)
  constexpr Operation(MessagePattern its_pattern) noexcept : pattern_(its_pattern) {}       // NOLINT(google-explicit-constructor)
  friend constexpr auto operator<=>(const Operation&, const Operation&) = default;

  constexpr MessagePattern pattern() const noexcept { return pattern_; }
  /// Returns the collective's row of the table of operations; null for a pattern.
  constexpr const OperationTraits* traits() const { return pattern_ == MessagePattern::none ? &traits_of(collective_) : nullptr; }

 private:
  unisono::Operation collective_ = unisono::Operation::barrier;
  MessagePattern pattern_ = MessagePattern::none;
};

std::string_view to_string(Operation operation) noexcept;
/// Returns every operation but copy, which has no name on the command line.
std::span<const Operation> operations() noexcept;
std::optional<Operation> parse_operation(std::string_view text) noexcept;

/// The number of elements that a rank hands in and gets out; the root's numbers for rooted operations.
struct Shape {
  std::size_t in = 0;
  std::size_t out = 0;
  std::size_t size = 0;  ///< what the size of the measurement counts, the same on all ranks: the largest buffer of any rank, or one message
};

/// Returns the shape of `rank` whose largest buffer, or message, comes nearest to `bytes`: never empty, at least one element for each rank.
Shape shape_of(Operation operation, int ranks, std::size_t bytes, std::size_t element_size, int rank = 0);
/// Returns the size in bytes, on which algbw is based.
std::size_t bytes_of(const Shape& shape, std::size_t element_size) noexcept;

/// Returns the elements of each rank's block for an operation on blocks of different length: each has one, and of the rest rank r has r + 1 parts of
/// 1 + 2 + … + ranks, so that the last rank's is about `ranks` times as long as the first one's.
std::vector<std::size_t> uneven_blocks(std::size_t elements, int ranks);
/// Returns how many elements `rank` sends to each rank in all_to_all_v, and receives from it: to rank r the block of rank + r, modulo the ranks.
std::vector<std::size_t> uneven_exchange(std::size_t elements, int ranks, int rank);
/// Returns the lengths of the blocks of a collective, as `rank` gives them to the call; empty if all are equally long.
std::vector<std::size_t> counts_of(Operation operation, std::size_t elements, int ranks, int rank);

inline constexpr std::size_t window = 64;  ///< messages that are under way at once
bool is_in_pairs(Operation operation) noexcept;
bool is_windowed(Operation operation) noexcept;
/// Returns the rank with which this one exchanges messages in pairs.
std::optional<int> partner_of(int rank, int ranks) noexcept;
/// Returns the rank whose elements this one gets in a pattern; nothing if it gets none.
std::optional<int> sender_to(Operation operation, int rank, int ranks) noexcept;
bool sends_in_window(Operation operation, int rank) noexcept;
bool receives_in_window(Operation operation, int rank) noexcept;
/// Returns how many messages, one behind the other, a call consists of; the time of one is reported. 1 for a collective.
std::size_t messages_of(Operation operation) noexcept;
/// Returns the largest size that is measured.
std::size_t most_bytes_of(Operation operation) noexcept;
/// Returns the factor with busbw = algbw × factor, which stands for the traffic on the links between the ranks.
double bus_factor(Operation operation, int ranks) noexcept;

/// Tells whether no rank leaves a call before all have entered it, so that calls timed in a batch cannot overlap on different ranks.
bool synchronises(Operation operation, int ranks) noexcept;
/// Tells whether the data stays in one buffer, even if out of place is asked for.
bool one_buffer(Operation operation) noexcept;
/// Tells whether all ranks together read and write as much memory as copying the bytes on every rank does, so that the roofline bounds the time.
bool moves_as_much_as_a_copy(Operation operation) noexcept;
/// Tells whether only rank 0, the root, gets a result.
bool root_only(Operation operation) noexcept;

}  // namespace unisono::bench
