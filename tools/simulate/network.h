#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/parameters.h"

namespace unisono::simulate {

/// How the hosts are connected.
enum class Topology : unsigned char {
  flat,            ///< one switch without contention
  fat_tree,        ///< leaf switches below a core without contention
  dragonfly_plus,  ///< groups of leaf and spine switches, with links between each two groups (Shpiner et al. 2017)
  rail_optimised,  ///< leaf switches that connect the same port of many hosts, below a core
};

inline constexpr std::array<std::string_view, 4> topology_names = {"flat", "fat_tree", "dragonfly_plus", "rail_optimised"};

/// A link that does not work: the port of a host, or one of the links of a leaf switch or between two groups.
struct DeadLink {
  enum class Where : unsigned char { host, leaf, global };
  Where where = Where::host;
  int number = 0;  ///< of the host, the leaf switch or the group
};

struct NetworkOptions {
  Topology topology = Topology::flat;
  int hosts = 1;
  int ports = 64;               ///< of a switch
  double oversubscription = 1;  ///< of a leaf switch: the bandwidth towards its hosts, divided by that towards the core
  int nics = 1;                 ///< ports of a host
  std::optional<DeadLink> dead = {};
};

/// A kind of link, of which a network has many. The two directions are links of their own.
struct LinkLevel {
  std::string_view name;
  int first = 0, count = 0;  ///< numbers of its links
  double bytes_per_us = 0;
};

/// The links between two hosts, in their order.
struct Path {
  static constexpr int most_links = 5;
  std::array<int, most_links> links{};
  int count = 0;
  int switches = 1;
  bool is_cut = false;  ///< a link without replacement is dead

  friend bool operator==(const Path&, const Path&) = default;
};

/// The links of a network. A folded one has only as many hosts as its period: host h stands for all hosts h + k x period.
class Network {
 public:
  /// Throws InvalidArgument where the topology has no such size.
  Network(const NetworkOptions& options, const Parameters& parameters, bool is_folded);

  /// Returns the number of neighbouring hosts after which the network looks the same.
  static int period(const NetworkOptions& options);
  /// Returns the number of hosts that a topology can have.
  static std::int64_t most_hosts(const NetworkOptions& options);
  /// Returns the hosts of a leaf switch.
  static int hosts_of_leaf(const NetworkOptions& options);

  /// Returns the way from a host's port to that of another host. Numbers of hosts beyond the network count modulo the period.
  Path path(int from, int from_nic, int to, int to_nic) const;
  const std::vector<LinkLevel>& levels() const { return levels_; }
  double bytes_per_us(int link) const { return capacities_[static_cast<std::size_t>(link)]; }
  int links() const { return static_cast<int>(capacities_.size()); }
  int nics() const { return options_.nics; }
  double burst_bytes() const { return burst_bytes_; }

 private:
  enum Kind : unsigned char { host_up, host_down, leaf_up, leaf_down, global };
  void add(std::string_view name, int count, double bytes_per_us);
  void kill(const DeadLink& dead);
  void join(Path& path, Kind kind, int index) const;
  int nic_of(int host, int nic, Path& path) const;
  int group_of(int host) const;
  int leaf_of(int host, int nic) const;
  int hosts_per_group() const;

  NetworkOptions options_;
  int hosts_;  // in this network
  bool is_folded_;
  double burst_bytes_;
  int leaf_hosts_ = 1, groups_ = 1;
  std::vector<LinkLevel> levels_;
  std::vector<double> capacities_;
};

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
