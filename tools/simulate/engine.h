#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/job.h"

namespace unisono::simulate {

/// The bytes of the links of a level.
struct LinkUse {
  std::string_view name;
  std::int64_t links = 0;  ///< of the network; a folded one has computed fewer
  double most_bytes = 0, all_bytes = 0;
  double gbit = 0;  ///< the bandwidth of one
  double busy = 0;  ///< the part of the call's time for which the busiest one would have sufficed
};

struct Outcome {
  std::string_view algorithm = {};
  double us = 0;                   ///< from the first rank's begin to the last one's end
  double first_us = 0;             ///< the first rank's end
  double messages = 0, bytes = 0;  ///< of all ranks
  int rounds = 0;
  int connections = 0;       ///< of the rank that uses most
  double scratch_bytes = 0;  ///< of the rank that needs most
  int computed = 0;          ///< ranks; the others do the same
  std::vector<LinkUse> links = {};
  std::vector<int> cut_off = {};  ///< ranks that never end, since a link without replacement is dead
};

/// Carries out a call's schedules on the model of a network. Throws InvalidArgument where the network has not so many ranks, and
/// TooLarge where the call has more messages than can be followed.
Outcome simulate(const Call& call, const SimulationOptions& options);

}  // namespace unisono::simulate
