#pragma once

#include <bit>
#include <cstddef>

#include "schedule/schedule.h"

namespace unisono::schedule {

/// The speed of a level's messages.
struct LevelParameters {
  double latency_us = 0;   ///< from the begin of a send to the end of its receive, of a message without elements
  double gap_us = 0;       ///< of a rank's time for each further message of a round
  double ns_per_byte = 0;  ///< the reciprocal of a connection's bandwidth
  friend bool operator==(const LevelParameters&, const LevelParameters&) = default;
};

/// Returns the parameters of the loopback interface between ranks that share processors, `crowding` of them each. They are fitted to the times of all
/// algorithms of all_reduce, all_gather, broadcast and all_to_all among 4 and 8 ranks on two processors, 64 KiB to 1 MiB, which they meet within a
/// fifth. A slower machine has other times, but much the same ratios, on which the choice depends.
constexpr LevelParameters between_shared_processors(double crowding) {
  return {.latency_us = 5.6, .gap_us = 3.85 * crowding, .ns_per_byte = 0.245 * crowding};
}

/// The parameters by which schedules are compared. All ranks of a group must have the same, since each chooses for itself. The defaults are those of
/// TCP on a network of 25 Gbit/s, and of shared memory on a server.
struct NetworkParameters {
  LevelParameters network{.latency_us = 20, .gap_us = 3, .ns_per_byte = 0.35};  ///< between hosts
  LevelParameters host{.latency_us = 1, .gap_us = 0.2, .ns_per_byte = 0.1};     ///< a collective in shared memory, and each byte of its vector
  double crowding = 1;                                                          ///< the ranks for each processor of a machine, at least 1
  double contention = 0.01;         ///< the part by which each further message of a round slows its bytes down
  double reduce_ns_per_byte = 0.1;  ///< for each byte that is combined with another
  double copy_ns_per_byte = 0.08;   ///< for each byte that is copied
  bool is_crowded() const { return crowding > 1; }
  friend bool operator==(const NetworkParameters&, const NetworkParameters&) = default;
};

/// The work of a schedule: of each kind, that of the rank that has most of it; and the mean of all ranks, which counts where ranks share processors.
/// The number of rounds is exact; the others are reached where the parts of the elements are even and the number of ranks is a power of two, and are
/// upper bounds elsewhere. A checker compares them with the steps.
struct Cost {
  double rounds = 0;         ///< messages that wait for each other: the longest chain of waves with messages
  double messages = 0;       ///< that a rank sends, or that it receives
  double path = 0;           ///< elements that follow each other on the longest chain of waves
  double sent = 0;           ///< elements that a rank sends
  double mean_messages = 0;  ///< messages that all ranks send, divided by the number of ranks
  double mean_sent = 0;      ///< elements that all ranks send, divided by the number of ranks
  double mean_copied = 0;    ///< elements that all ranks copy, divided by the number of ranks
  double reduced = 0;        ///< elements that a rank combines with another
  double copied = 0;         ///< elements that a rank copies
  double scratch = 0;        ///< elements of temporary memory, rounded up as the Builder does
  double host_calls = 0;     ///< collectives of the ranks of a host
  double host_elements = 0;  ///< the lengths of their vectors

  friend bool operator==(const Cost&, const Cost&) = default;
  /// Returns the work of one schedule after another.
  friend Cost operator+(const Cost& a, const Cost& b) {
    return {
        a.rounds + b.rounds,         a.messages + b.messages,          a.path + b.path,       a.sent + b.sent,     a.mean_messages + b.mean_messages,
        a.mean_sent + b.mean_sent,   a.mean_copied + b.mean_copied,    a.reduced + b.reduced, a.copied + b.copied, a.scratch + b.scratch,
        a.host_calls + b.host_calls, a.host_elements + b.host_elements};
  }
};

/// Returns the cost of a schedule in which all ranks send as much.
constexpr Cost evenly(Cost cost) {
  cost.mean_messages = cost.messages;
  cost.mean_sent = cost.sent;
  cost.mean_copied = cost.copied;
  return cost;
}

/// Returns the time in microseconds that a schedule takes on elements of so many bytes, where `sharing` ranks share each connection with the network.
double predicted_us(const Cost& cost, const NetworkParameters& network, std::size_t element, int sharing);

/// Returns the number of pieces in which a vector passes fastest along a chain of so many links.
int pieces_of_chain(std::size_t count, std::size_t element, int links, const NetworkParameters& network, int sharing);

/// Returns the number of rounds in which the ranks that know something can double until all of `ranks` do.
constexpr int doublings(int ranks) { return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1))); }
/// Returns the number that Builder::scratch reserves for so many elements.
constexpr double reserved(std::size_t count) {
  const std::size_t lines = (count + 63) / 64;
  return static_cast<double>(lines * 64);
}
/// Returns the elements of the largest part of an even partition.
constexpr std::size_t largest_share(std::size_t count, int parts) {
  const auto n = static_cast<std::size_t>(parts);
  return (count + n - 1) / n;
}
/// Returns the length of the block of a collective; the mean where its blocks differ. It is the same on all ranks.
inline std::size_t block_of(const Problem& problem) {
  if (problem.operation == Operation::all_to_all_v) return problem.typical_block;
  return has_counts(problem.operation) ? largest_share(problem.count, problem.size) : problem.count;
}

}  // namespace unisono::schedule
