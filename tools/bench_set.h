#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "bench_peers.h"
#include "base/file_descriptor.h"
#include "harness/plan.h"
#include "launch/child.h"

namespace unisono::tools {

/// SIGINT or SIGTERM while the bench was waiting.
struct BenchInterrupted {
  int signal;
};

/// A folder of its own, gone with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// The ranks of one setup, at work. They measure a round whenever they are told to and sleep in between, so that sets can take turns.
class BenchSet {
 public:
  /// Starts them and waits until all have met.
  BenchSet(const BenchSetup& setup, bench::Plan plan, const std::filesystem::path& folder, const base::Environment& environment,
           launcher::SignalScope& signals, const launcher::Watchdog& watchdog);
  ~BenchSet();
  BenchSet(const BenchSet&) = delete;
  BenchSet& operator=(const BenchSet&) = delete;

  const BenchSetup& setup() const noexcept { return setup_; }
  /// Which of unisono's backends serves it.
  const std::string& backend() const noexcept { return backend_; }
  /// What rank 0 reports of the round. LaunchFailed, with the ranks' own words, where they fail.
  nlohmann::json round(int number);
  /// Ends them in good order.
  void finish();

 private:
  void order(int number);
  nlohmann::json next_event();
  [[noreturn]] void explain_end();
  void end_quietly() noexcept;
  /// True if the processes are over before the deadline.
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
  bool waits_for_order_ = false;  ///< so that it can be asked to end, instead of being ended
  std::string text_;
  std::string backend_;
};

}  // namespace unisono::tools
