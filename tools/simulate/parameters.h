#pragma once

#include <algorithm>

#include "schedule/cost_model.h"

namespace unisono::simulate {

/// The speed of messages after the LogGP model (Alexandrov, Ionescu, Schauser, Scheiman 1995).
struct LogGP {
  double latency_us = 0;        ///< L: from the last byte's departure to its arrival
  double overhead_us = 0;       ///< o: of a processor's time, for each message that it sends and for each that it receives
  double gap_us = 0;            ///< g: the least time between two messages of a rank
  double ns_per_byte = 0;       ///< G: of a message that has all links for itself
  double work_ns_per_byte = 0;  ///< of a processor's time, on both sides
};

/// The speed of the machines and links. The defaults are those of NetworkParameters: TCP on a network of 25 Gbit/s, and servers with shared memory.
struct Parameters {
  LogGP network{.latency_us = 17, .overhead_us = 1.5, .gap_us = 3, .ns_per_byte = 0.35};  ///< between hosts
  LogGP host{.latency_us = 0.6, .overhead_us = 0.2, .gap_us = 0.2, .ns_per_byte = 0.1};   ///< between ranks of one host
  double link_gbit = 25;                                                                  ///< of each port of a host and of a switch
  double link_burst_bytes = 0;  ///< that pass a rested link without being held up: the bucket of a shaped link
  double hop_us = 0.5;          ///< of each switch after the first
  double host_call_us = 1;      ///< a collective in shared memory
  double host_call_ns_per_byte = 0.1;
  double reduce_ns_per_byte = 0.1;  ///< for each byte that is combined with another
  double copy_ns_per_byte = 0.08;   ///< for each byte that is copied
  int cores = 0;                    ///< of a machine; 0: every rank has one for itself
  int hosts_per_machine = 1;        ///< that share these cores: network namespaces of one kernel
  double switch_us = 0;             ///< a core's change from one rank to another

  double bytes_per_us() const { return link_gbit * 1000 / 8; }
};

/// Returns the parameters that a group would have measured on such a network.
inline schedule::NetworkParameters as_measured(const Parameters& parameters) {
  const LogGP& network = parameters.network;
  constexpr double ns_in_us = 1000;
  schedule::NetworkParameters measured;
  measured.network = {.latency_us = network.latency_us + 2 * network.overhead_us,
                      .gap_us = std::max(network.gap_us, 2 * network.overhead_us),
                      .ns_per_byte = std::max(network.ns_per_byte, ns_in_us / parameters.bytes_per_us())};
  measured.host = {.latency_us = parameters.host_call_us, .gap_us = parameters.host.gap_us, .ns_per_byte = parameters.host_call_ns_per_byte};
  measured.reduce_ns_per_byte = parameters.reduce_ns_per_byte;
  measured.copy_ns_per_byte = parameters.copy_ns_per_byte;
  return measured;
}

}  // namespace unisono::simulate
