// The time of a schedule, after the model of Hockney (1994) with a gap for each message as in LogP (Culler et al. 1993).
#include "schedule/cost_model.h"

#include <algorithm>
#include <cmath>

namespace unisono::schedule {
namespace {

/// The part by which each further message of a round slows its bytes down where ranks share processors: they leave the cache before their receiver
/// runs.
constexpr double shared_contention = 0.03;
/// The time of a collective in shared memory there: that in which the ranks of the host get a processor one after the other.
constexpr double shared_host_us = 6;

}  // namespace

double predicted_us(const Cost& cost, const NetworkParameters& network, std::size_t element, int sharing) {
  const auto bytes = static_cast<double>(element);
  const bool is_crowded = network.is_crowded();
  const double host_us = is_crowded ? std::max(network.host.latency_us, shared_host_us) : network.host.latency_us;
  const double waiting = cost.rounds * network.network.latency_us + cost.host_calls * host_us;
  const double at_once = cost.rounds > 0 ? cost.messages / cost.rounds : 0;
  const double contention = is_crowded ? std::max(network.contention, shared_contention) : network.contention;
  const double byte_ns = bytes * network.network.ns_per_byte * (1 + contention * std::max(at_once - 1, 0.0));
  if (is_crowded) {
    // The processors have the messages of all ranks to carry, whatever waits for what. The parameters are those of pairs of ranks, of which one sends
    // and the other receives; each rank does both.
    const double own_ns = between_shared_processors(network.crowding).ns_per_byte, slowness = network.network.ns_per_byte / own_ns;
    const double work = cost.reduced * network.reduce_ns_per_byte + cost.mean_copied * network.copy_ns_per_byte;
    const double processors_ns =
        2 * cost.mean_sent * byte_ns / std::max(slowness, 1.0) + (work * network.crowding + cost.host_elements * network.host.ns_per_byte) * bytes;
    // A network that is slower than the processors has its bytes follow each other as it does elsewhere.
    const double network_ns = slowness > 1 ? cost.path * byte_ns * sharing : 0;
    return waiting + 2 * cost.mean_messages * network.network.gap_us + std::max(processors_ns, network_ns) / 1000;
  }
  const double ns = cost.path * byte_ns * sharing + cost.reduced * bytes * network.reduce_ns_per_byte +
                    cost.copied * bytes * network.copy_ns_per_byte + cost.host_elements * bytes * network.host.ns_per_byte;
  return waiting + std::max(cost.messages - cost.rounds, 0.0) * network.network.gap_us + ns / 1000;
}

int pieces_of_chain(std::size_t count, std::size_t element, int links, const NetworkParameters& network, int sharing) {
  constexpr double most = 1024;
  if (links <= 1 || count <= 1) return 1;
  const double us = static_cast<double>(count) * static_cast<double>(element) * network.network.ns_per_byte * sharing / 1000;
  const double best = std::sqrt((links - 1) * us / std::max(network.network.latency_us, 0.01));  // where (links - 1 + k) (latency + us / k) is least
  return static_cast<int>(std::clamp(std::round(best), 1.0, std::min(most, static_cast<double>(count))));
}

}  // namespace unisono::schedule
