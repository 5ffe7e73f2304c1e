#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/algorithm.h"

namespace unisono::schedule {

/// Returns all algorithms; those of an operation stand together.
std::span<const Algorithm> table();
/// Returns the algorithms of an operation; none for a barrier and for messages.
std::span<const Algorithm> rows_of(Operation operation);

/// Returns the algorithm that `build` takes.
const Algorithm& select(const Problem& problem, const Setting& setting);

/// Returns the table as text for `unisono info --schedules`: an operation, its algorithms with the sizes from which each is chosen for float32, and
/// the algorithms that only UNISONO_SCHEDULE, an engine or the kind of a call chooses. Sizes whose elements travel with the comparison of the calls
/// say so.
std::vector<std::pair<std::string, std::string>> describe_table(const Setting& setting);
/// The same for so many ranks on so many hosts, one after the other, over connections.
std::vector<std::pair<std::string, std::string>> describe_table(int ranks, int hosts, const NetworkParameters& network = {});
/// Returns the parameters as UNISONO_NETWORK takes them.
std::string text_of(const NetworkParameters& network);
/// Returns the parameters between hosts in a line.
std::string describe(const NetworkParameters& network);
/// Returns the parameters that nothing measures.
std::string describe_assumed(const NetworkParameters& network);
/// Reads a text of UNISONO_NETWORK: "LATENCY,GAP,BYTE" in µs, µs and ns, and a fourth figure for the ranks for each processor if it is not 1, are
/// taken instead of a calibration, "assumed" takes the defaults, and "" means a calibration. Throws InvalidArgument for any other form.
std::optional<NetworkParameters> parse_network(std::string_view text);
/// Returns UNISONO_NETWORK of this process, read once; "" if it is not set. All ranks must be given the same text.
const std::string& network_override();

/// Checks a text of UNISONO_SCHEDULE: "all_reduce=shares,broadcast=exchange" prefers these algorithms wherever they can be used, whatever the size.
/// Throws InvalidArgument for any other form. All ranks must be given the same text.
void check_override(std::string_view text);
/// Returns UNISONO_SCHEDULE of this process, read once; "" where it is not set.
const std::string& schedule_override();
/// Returns true where UNISONO_SCHEDULE names an algorithm for the operation.
bool is_overridden(Operation operation);

}  // namespace unisono::schedule
