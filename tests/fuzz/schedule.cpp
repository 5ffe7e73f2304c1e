// UNISONO_SCHEDULE and UNISONO_NETWORK: refused with InvalidArgument, or taken; figures are finite and come back as they are written.
#include <cmath>

#include "input.h"
#include "schedule/selection.h"
#include "unisono/error.h"

namespace unisono::fuzz {

void check_input(std::string_view bytes) {
  refuses<InvalidArgument>([&] { schedule::check_override(bytes); });
  refuses<InvalidArgument>([&] {
    const auto parameters = schedule::parse_network(bytes);
    if (!parameters) return;
    const auto& network = parameters->network;
    for (const double figure : {network.latency_us, network.gap_us, network.ns_per_byte, parameters->crowding}) {
      require(std::isfinite(figure) && figure >= 0, "a figure is a number");
    }
    require(!schedule::text_of(*parameters).empty(), "it has a text");
  });
}

}  // namespace unisono::fuzz
