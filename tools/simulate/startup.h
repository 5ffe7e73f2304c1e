#pragma once

#include <string_view>
#include <vector>

#include "simulate/engine.h"

namespace unisono::simulate {

/// What it costs that a host's launcher hands its ranks' requests on, measured by `scripts/bench/startup --costs`.
struct RelayCosts {
  double store_us = 1.8;           ///< of the store's server, for a request that was handed on
  double launcher_us = 8.3;        ///< of the launcher, for that request
  double local_ns_per_byte = 1.6;  ///< of the launcher, for a byte of a value that it gives to a rank

  double us_of_launcher(double requests, double bytes) const { return requests * launcher_us + bytes * local_ns_per_byte / 1000; }
};

/// What the steps of a start cost, measured on one server (docs/design/scaling.md).
struct StartupCosts {
  RelayCosts relay = {};
  double request_us = 8.5;             ///< of the store's server, for a request and its answer
  double accept_us = 80;               ///< of the store's server, for a connection and its proof
  double key_us = 0.07;                ///< of the store's server, for each key of a request that waits for many
  double connect_us = 120;             ///< of a rank, for its side of a connection and its proof
  double attempt_us = 0.36;            ///< of a rank, for each connection beside the one that it is making
  double record_bytes = 120;           ///< of a rank's own record
  double listed_bytes = 5;             ///< of a rank in the list of members
  double listed_host_bytes = 27;       ///< of a host in it
  double count_bytes = 6;              ///< of a launcher in the list of numbers of ranks
  double key_bytes = 40;               ///< of a key in a request
  double parse_us = 0.3;               ///< of a rank, for a record and its host
  double heartbeat_us = 3;             ///< of a rank, for one that it sends or receives
  double heartbeat_period_s = 1;       ///< the time in which a connection carries something
  double connection_bytes = 14 << 10;  ///< of memory: what a reader has used of its buffer, and the system's for a socket
  double member_bytes = 150;           ///< of memory: what a rank of the job adds to each other one
  double address_bytes = 28;           ///< of a rank in the list of addresses
  int fan_out = 8;                     ///< of a tree (WatchTree::arity)
  int most_eager = 64;                 ///< peers of a rank that connects with all of them

  /// Of a rank.
  double memory_bytes(double connections, double members) const { return connections * connection_bytes + members * member_bytes; }
  /// The part of a processor that a rank's heartbeats, so many in a second, and those of its peers take.
  double heartbeat_work(double heartbeats) const { return 2 * heartbeats * heartbeat_us / 1e6; }
};

/// The design of a start.
enum class Design : unsigned char {
  present,  ///< under `unisono run`: a host's launcher hands its ranks' requests on (store/relay.h). Connections as `eager` up to a limit
            ///< (Link::Options::most_eager), beyond it when they are used
  eager,    ///< the same where the limit is above the number of ranks: every rank connects with all ranks of other hosts at once
  by_rank,  ///< `present` under any other launcher: each rank has a connection of its own to the store, which rank 0 serves
};

struct Phase {
  std::string_view name;
  double seconds = 0;
  std::string_view limit = {};  ///< what takes most of it
};

/// The way from the start of the launchers to the end of the first barrier, where all of them start at the same time. The time in which a launcher
/// starts its ranks is not in it.
struct Startup {
  std::vector<Phase> phases = {};
  double requests = 0;        ///< to the store, of all ranks and launchers
  double store_bytes = 0;     ///< that leave and enter host 0 for it
  double connections = 0;     ///< of a rank, when the first barrier is over
  double memory_bytes = 0;    ///< of a rank, for connections and members
  double heartbeats = 0;      ///< that a rank sends in a second
  double heartbeat_work = 0;  ///< the part of a processor that they and those of its peers take

  double seconds() const;
};

/// Returns the start of a job. `barrier` is the outcome of its first barrier.
Startup start_up(const Call& call, const Parameters& parameters, const StartupCosts& costs, Design design, const Outcome& barrier);

}  // namespace unisono::simulate
