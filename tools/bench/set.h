#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "base/environment.h"
#include "base/file_descriptor.h"
#include "bench/setups.h"
#include "harness/plan.h"
#include "launch/process/child.h"

namespace unisono::tools {

/// SIGINT or SIGTERM arrived while the bench was waiting.
struct BenchInterrupted {
  int signal;
};

/// The running ranks of one setup. They measure a round when told to and sleep in between, so that sets can take turns.
class BenchSet {
 public:
  /// Starts the ranks and waits until all have met.
  BenchSet(const BenchSetup& setup, bench::Plan plan, const std::filesystem::path& folder, const base::Environment& environment,
           launcher::SignalScope& signals, const launcher::Watchdog& watchdog);
  ~BenchSet();
  BenchSet(const BenchSet&) = delete;
  BenchSet& operator=(const BenchSet&) = delete;

  const BenchSetup& setup() const noexcept { return setup_; }
  /// Returns the backend of unisono that serves the set.
  const std::string& backend() const noexcept { return backend_; }
  /// Returns rank 0's report of the round; meanwhile calls the function with the part of it that is done, where the plan asks for that. Throws
  /// LaunchFailed, with the ranks' own words, where they fail.
  nlohmann::json round(int number, const std::function<void(double part)>& on_progress);
  /// Ends the ranks in good order.
  void finish();

 private:
  void order(int number);
  nlohmann::json next_event();
  [[noreturn]] void explain_end();
  void end_quietly() noexcept;
  /// Returns true if the processes have ended before the deadline.
  bool wait_for_exit(std::chrono::milliseconds timeout) noexcept;

  BenchSetup setup_;
  bench::Plan plan_;
  launcher::SignalScope& signals_;
  const launcher::Watchdog& watchdog_;
  base::FileDescriptor arena_;
  base::FileDescriptor control_;
  base::FileDescriptor events_;
  launcher::Child child_;
  int status_ = 0;
  bool waits_for_order_ = false;  ///< if true, it can be asked to end; otherwise it is killed
  std::string text_;
  std::string backend_;
};

}  // namespace unisono::tools
