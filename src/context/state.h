#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
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
  int machines = 1;                       // hosts as they are; nnodes as they present themselves, which is the same outside of tests
  std::vector<std::string> host_names{};  // by global rank
  std::vector<int> hosts{};               // by global rank, the number of its host, in the order of each one's lowest rank
  std::vector<int> local_members{0};      // global ranks of this host's processes
};

/// How this rank makes the core of a group that it is in. `backend`: what was asked for; empty: as the world's.
using CoreMaker = std::function<std::unique_ptr<group::GroupCore>(const group::CoreOptions&, const std::string& backend)>;

/// What a process (or a thread inside run_threads) is part of.
struct State {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  Topology topology;
  Launcher launcher = Launcher::none;
  std::shared_ptr<Store> launcher_store;  // of our launcher, whatever the ranks met through; null elsewhere
  std::shared_ptr<Store> store;           // null in a world of one that nobody launched, and among threads
  std::shared_ptr<group::Progress> progress;
  std::optional<ProcessGroup> world;
  std::optional<ProcessGroup> local;   // the processes of this host, once somebody has asked
  std::shared_ptr<Store> group_store;  // where groups are formed; null in a world of one
  CoreMaker make_core;
  std::map<std::string, int> formed;                // how many groups of a list of ranks there have been
  std::vector<std::weak_ptr<group::Group>> groups;  // those that may still be open
  bool serves_store = false;                        // others need this process for it
  std::string goodbye_key;                          // where ranks say in the store that they are done; empty: nobody asks
  bool is_job = true;                               // the launcher is told when this begins and ends well, and not only when it fails
  std::function<void()> leave_job = [] {};          // tells the store that this process is done with it
  std::atomic<std::int64_t> mismatch_at{-1};        // the last call of the world when one of another group was a Mismatch
  bool temporary = false;                           // adopted by sync until it looks again
  ~State();
};

/// The calling thread's: of run_threads, else the process's, else the one of a process that was not launched. Throws NotInitialized.
State& current();
/// Null where there is none but that last one.
State* initialized();
/// Of the calling thread, inside run_threads.
State*& of_thread();

/// Tells `unisono run`, if it is there, how this rank fares.
void tell_launcher(const State& state, const std::string& status) noexcept;

/// The status of a rank whose last call was a Mismatch: the culprit's rank in the world or -1, and how many ranks were compared.
std::string mismatch_status(int culprit, int ranks, const std::string& text);

/// One line of what was decided for a group.
void log_group(const ProcessGroup& group);

/// What the ranks that join are to each other.
struct Terms {
  std::string name = "world";  ///< of the group of all of them
  bool are_job = true;         ///< all that the launcher started: what it says of places on a host is about them
  bool is_adopted = false;     ///< of a job that somebody else has formed, and ends: the launcher is owed no `finalize`
};
/// Joins the job.
std::unique_ptr<State> join(const InitOptions& options, const Terms& terms = {});
/// A world of one.
std::unique_ptr<State> alone();
/// Says goodbye, waits for what is under way, ends the thread.
void leave(State& state);
/// After a failure: waits for nobody.
void abandon(State& state);

std::optional<int> local_rank_hint();

}  // namespace unisono::context
