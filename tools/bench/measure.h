#pragma once

#include <optional>
#include <vector>

#include "bench/options.h"
#include "bench/set.h"
#include "bench/rows.h"
#include "harness/plan.h"
#include "launch/process/signals.h"
#include "launch/process/watchdog.h"

namespace unisono::tools {

/// Returns what is to be measured. Checks everything that can be checked before any process is started, and throws InvalidArgument.
bench::Plan plan_of(const BenchOptions& options);
/// Returns what all results of the plan have in common.
BenchConditions conditions_of(const BenchOptions& options, const bench::Plan& plan);

struct BenchMeasured {
  std::vector<BenchRow> rows = {};
  std::optional<int> interrupted = {};  ///< the signal that ended it early
};

/// Measures in the processes of these setups, and prints the tables. Throws BenchInterrupted while the processes are being started.
BenchMeasured measure(const BenchOptions& options, const bench::Plan& plan, const std::vector<BenchSetup>& setups, launcher::SignalScope& signals,
                      const launcher::Watchdog& watchdog);

}  // namespace unisono::tools
