#include "simulate/parameters.h"

#include <algorithm>

namespace unisono::simulate {

schedule::NetworkParameters as_measured(const Parameters& parameters) {
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
