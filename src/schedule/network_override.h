#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "schedule/cost_model.h"

namespace unisono::schedule {

/// Reads a text of UNISONO_NETWORK: "LATENCY,GAP,BYTE" in µs, µs and ns, and a fourth figure for the ranks for each processor where it is not 1,
/// are taken instead of a calibration, "assumed" takes the defaults, and "" means a calibration. Throws InvalidArgument for any other form.
std::optional<NetworkParameters> parse_network(std::string_view text);
/// Returns UNISONO_NETWORK of this process, read once; "" where it is not set. All ranks must be given the same text.
const std::string& network_override();

}  // namespace unisono::schedule
