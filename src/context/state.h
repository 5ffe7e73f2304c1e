#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "context/formed_groups.h"
#include "context/job.h"
#include "context/status_reporter.h"
#include "context/topology.h"
#include "group/group.h"
#include "group/progress/progress.h"
#include "recorder/recorder.h"

namespace unisono::context {

/// The world of a process, or of a thread inside run_threads, and its part in it.
struct State {
  State(int own_rank, int ranks, std::shared_ptr<recorder::Recorder> record, Job joined = {});
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const int rank, world_size;
  std::uint64_t mark = 0;  // the same on all processes of a world, and rarely that of another one; 0: of a process alone, or of threads
  Job job;
  Topology topology;
  StatusReporter launcher;
  Goodbye goodbye;
  const std::shared_ptr<group::Progress> progress;
  const std::shared_ptr<recorder::Recorder> recorder;
  std::optional<ProcessGroup> world;
  std::optional<ProcessGroup> local;          // the processes of this host, once it was asked for
  std::shared_ptr<group::Group> whole;        // the group of all processes of the job: the world, or what shrink_group has left of it
  FormedGroups groups;                        // the other ones
  std::optional<Device> own_device;           // the device of this process, where it has one, with and without an engine of its memory
  std::atomic<std::int64_t> mismatch_at{-1};  // number of the world's last call when another group had a Mismatch
  bool is_temporary = false;                  // adopted by sync until it looks again
  std::int64_t tickets_done = 0;              // of newcomers: those before it need nothing any more
  GenerationKeys keys;
  /// Inside run_threads: makes this rank's state in a world of some of the threads, which all give the same key.
  std::function<std::unique_ptr<State>(const std::string& key, int own_rank, int ranks)> form_part = {};
  std::shared_ptr<void> termination;  // watches for an exception that nobody catches

  /// Makes the world of these parts, and lets the thread for asynchronous calls know where it waits.
  void open_world(group::GroupParts parts);
  /// Returns the device that this process computes on; nullopt: none.
  std::optional<Device> device() const;
  /// Tells whether no call of the world was made since one of another group was a Mismatch.
  bool is_after_mismatch() const;
};

/// Returns the calling thread's state inside run_threads, else the process's, else that of a process without a launcher. Throws NotInitialized.
State& current();
/// Returns the calling thread's or the process's state, or null where neither was initialized.
State* initialized();
/// Returns the calling thread's own state, which only run_threads sets.
State*& of_thread();
/// Puts another state in the place of the thread's or the process's own one, which it returns, for a while.
State* exchange_current(State* now);
/// Puts the state of a later generation in the place of the process's own, which ends.
void replace_own(std::unique_ptr<State> grown);

/// Returns what set_local_rank was called with.
std::optional<int> local_rank_hint();

}  // namespace unisono::context
