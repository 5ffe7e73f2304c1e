#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <vector>

#include "simulate/network.h"

namespace unisono::simulate {

/// Messages on their way, as flows of bytes. Each link divides its bandwidth evenly among its flows, and a flow is as fast as the slowest of its
/// links lets it be. (Max-min fairness would give what a flow cannot use to others, so a link that is shared with flows that are slow elsewhere is
/// underestimated here.) A link with a bucket lets so many bytes pass at once after a rest. Where more than 128 flows share a link, their number is
/// followed within 2 %.
class Flows {
 public:
  explicit Flows(const Network& network);

  /// Begins a flow; `weight` messages on the same way count as so many flows. It is no faster than `most` bytes in a microsecond. `tag` comes back.
  void start(double now, const Path& path, double bytes, double weight, double most, std::uint64_t tag);
  /// Must follow the flows that start and end at the same time.
  void settle(double now);
  /// Returns when the next flow ends, as far as is known; infinity where there is none.
  double next() const { return ends_.empty() ? std::numeric_limits<double>::infinity() : ends_.top().time; }
  /// Ends a flow that is due, and returns its tag. Returns false where the next one has become slower since.
  bool end_next(double now, std::uint64_t& tag);
  /// Returns the bytes that have begun to pass a link.
  double bytes(int link) const { return links_[static_cast<std::size_t>(link)].bytes; }

 private:
  struct Flow {
    Path path;
    std::array<std::uint32_t, Path::most_links> places{};  ///< in the links' lists
    double weight = 1, remaining = 0, rate = 0, most = 0, since = 0;
    double free = 0, remaining_at_begin = 0, begun = 0;  ///< bytes that passed at once, and the others
    double end = 0;                                      ///< at this rate
    double noted = 0;                                    ///< the time in the queue
    std::uint64_t tag = 0;
    std::uint32_t generation = 0;  ///< of this place, which other flows have had
  };
  struct Link {
    double capacity = 0, weight = 0, used_weight = 0, bytes = 0;
    std::vector<std::uint32_t> flows;  ///< in no order
    bool is_dirty = false;
    double burst = 0, rested_since = 0;  ///< bytes that pass at once; the time from which on no flow uses it
  };
  struct End {
    double time;
    std::uint32_t flow, generation;
    friend bool operator<(const End& a, const End& b) { return a.time > b.time; }
  };

  void touch(int link);
  double take_burst(double now, const Path& path, double bytes);
  void remove(Link& link, std::uint32_t at, int number);
  void adjust(std::uint32_t flow, double now);

  double most_burst_;
  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_;
  std::vector<int> dirty_;
  std::vector<std::uint32_t> fresh_;  // have no rate yet
  std::priority_queue<End> ends_;
};

}  // namespace unisono::simulate
