#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "group/group.h"
#include "group/progress.h"
#include "unisono/context.h"

namespace unisono::context {

/// Which process is where: exact, from what every rank says of its host.
struct Topology {
  int local_rank = 0;
  int nproc_per_node = 1;
  int nnodes = 1;
  int node_rank = 0;
  std::vector<std::string> host_names{};  // by global rank
};

/// What a process (or a thread inside run_threads) is part of.
struct State {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  Topology topology;
  Launcher launcher = Launcher::none;
  std::shared_ptr<Store> store;  // null in a world of one that nobody launched, and among threads
  std::shared_ptr<group::Progress> progress;
  std::optional<ProcessGroup> world;
  bool serves_store = false;                // others need this process for it
  std::string goodbye_key;                  // where ranks say in the store that they are done; empty: nobody asks
  std::function<void()> leave_job = [] {};  // tells the store that this process is done with it
  bool temporary = false;                   // adopted by sync until it looks again
  ~State();
};

/// The calling thread's: of run_threads, else the process's, else the one of a process that was not launched. Throws NotInitialized.
State& current();
/// Null where there is none but that last one.
State* initialized();
/// Of the calling thread, inside run_threads.
State*& of_thread();

/// Joins the job.
std::unique_ptr<State> join(const InitOptions& options);
/// A world of one.
std::unique_ptr<State> alone();
/// Says goodbye, waits for what is under way, ends the thread.
void leave(State& state);
/// After a failure: waits for nobody.
void abandon(State& state);

std::optional<int> local_rank_hint();

}  // namespace unisono::context
