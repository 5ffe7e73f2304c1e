#pragma once

#include <string_view>
#include <vector>

#include "simulate/engine.h"

namespace unisono::simulate {

/// What the steps of a start cost, measured on one server (docs/scaling.md).
struct StartupCosts {
  double request_us = 8.5;             ///< of the store's server, for a request and its answer
  double accept_us = 80;               ///< of the store's server, for a connection and its proof
  double key_us = 0.07;                ///< of the store's server, for each key of a request that waits for many
  double connect_us = 120;             ///< of a rank, for its side of a connection and its proof
  double attempt_us = 0.36;            ///< of a rank, for each connection beside the one that it is making
  double record_bytes = 120;           ///< of a rank in the list of members
  double key_bytes = 40;               ///< of a key in a request
  double parse_us = 0.3;               ///< of a rank, for a record
  double compare_ns = 5;               ///< of a rank, for two names of hosts
  double heartbeat_us = 3;             ///< of a rank, for one that it sends or receives
  double heartbeat_period_s = 1;       ///< the time in which a connection carries something
  double connection_bytes = 72 << 10;  ///< of memory: the reader's buffer, and the system's for a socket
  double member_bytes = 250;           ///< of memory: a rank's name, host and place in the tables
  int fan_out = 16;                    ///< of a tree
};

/// The design of a start. The first one is that of the sources.
enum class Design : unsigned char {
  present,    ///< every rank asks the store for everything, and connects with all ranks of other hosts
  tree_join,  ///< a request of each host, and a tree that carries the list of members
  on_demand,  ///< the same; connections are made when they are used, and heartbeats follow a tree
};

struct Phase {
  std::string_view name;
  double seconds = 0;
  std::string_view limit = {};  ///< what takes most of it
};

/// The way from the start of the processes to the end of the first barrier, where all of them start at the same time.
struct Startup {
  std::vector<Phase> phases = {};
  double requests = 0;        ///< to the store, of all ranks
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
