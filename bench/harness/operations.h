#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace unisono::bench {

/// The operations that are measured. `copy` is the roofline: each rank copies its bytes without communication.
///
/// The collectives whose names end in _v have blocks of different length. From ping_pong to message_rate the ranks send messages in pairs, 0 and 1, 2
/// and 3, and so on; a last rank without a partner looks on.
enum class Operation {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  barrier,
  send_recv,
  all_gather_v,
  reduce_scatter_v,
  all_to_all_v,
  gather_v,
  scatter_v,
  ping_pong,      ///< a message there, then one back
  bandwidth,      ///< a window of messages from the even to the odd rank, which answers once it has all
  bidirectional,  ///< a window in both directions at once
  message_rate,   ///< as bandwidth, of small messages only
  copy
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

inline constexpr std::size_t window = 64;  ///< messages that are under way at once
bool is_in_pairs(Operation operation) noexcept;
bool is_windowed(Operation operation) noexcept;
/// Returns the rank with which this one exchanges messages in pairs.
std::optional<int> partner_of(int rank, int ranks) noexcept;
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
/// Tells whether only rank 0 gets a result.
bool root_only(Operation operation) noexcept;

}  // namespace unisono::bench
