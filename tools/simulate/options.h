#pragma once

#include <vector>

#include "simulate/job.h"
#include "simulate/network.h"
#include "simulate/parameters.h"

namespace unisono::simulate {

/// A rank that comes late to the call, or whose processor is slower than the others'.
struct Straggler {
  int rank = 0;
  double late_us = 0;
  double slowness = 1;
};

struct SimulationOptions {
  NetworkOptions network = {};
  Parameters parameters = {};
  Folding folding = Folding::automatic;
  std::vector<Straggler> stragglers = {};
  double most_messages = simulate::most_messages;  ///< that may have to be followed one by one
};

}  // namespace unisono::simulate
