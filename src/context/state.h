#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "context/left_keys.h"
#include "group/group.h"
#include "group/progress/progress.h"
#include "recorder/recorder.h"
#include "rendezvous/rendezvous.h"
#include "unisono/context.h"

namespace unisono::store {
class OwnKeysStore;
}

namespace unisono::context {

class Formation;

/// Says which process runs where, from what every rank reports of its host.
struct Topology {
  int local_rank = 0;
  int nproc_per_node = 1;
  int nnodes = 1;
  int node_rank = 0;
  int ranks_under_kernel = 1;             // that share this rank's processors, whatever network and PID namespaces they are in
  int processors = 1;                     // that they have together; ranks that are bound to one each have as many as they are
  int machines = 1;                       // real hosts; nnodes counts them as ranks present themselves, which differs in tests only
  std::vector<std::string> host_names{};  // by global rank
  std::vector<int> hosts{};               // by global rank: the number of its host, in the order of each host's lowest rank
  std::vector<int> local_members{0};      // global ranks of this host's processes
};

/// Properties that distinguish the world of a job from other groups that join.
struct Terms {
  std::string name = "world";  ///< the group's name
  bool are_job = true;         ///< true if the ranks are all that the launcher started, so that its local ranks apply
  bool is_adopted = false;     ///< true if somebody else formed the job and ends it, so that the launcher is owed no `finalize`
  std::string library = {};    ///< see MembershipOptions
};
/// Makes this rank's core of a group. `backend` is the name asked for; empty stands for the world's.
using CoreMaker = std::function<std::unique_ptr<group::GroupCore>(const group::CoreOptions&, const std::string& backend)>;

/// The job that a process, or a thread inside run_threads, is part of.
struct State {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  Topology topology;
  std::shared_ptr<Store> launcher_store;  // the store of `unisono run`; null under other launchers
  std::shared_ptr<Store> store;           // null in a world of one that nobody launched, and among threads
  std::shared_ptr<group::Progress> progress;
  std::shared_ptr<recorder::Recorder> recorder;
  std::optional<ProcessGroup> world;
  std::optional<ProcessGroup> local;   // the processes of this host, once it was asked for
  std::shared_ptr<Store> group_store;  // the store in which groups are formed; null in a world of one
  CoreMaker make_core;
  std::map<std::string, int> formed;  // how many groups each list of ranks has formed
  std::shared_ptr<LeftKeys> left_keys = std::make_shared<LeftKeys>();
  std::vector<std::weak_ptr<group::Group>> groups;  // groups that may still be open
  std::optional<Device> own_device;                 // the device of this process, where it has one, with and without an engine of its memory
  bool serves_store = false;                        // true if other ranks need this process for the store
  std::string goodbye_key;                          // key under which ranks say that they are done; empty if nobody waits for it
  bool is_job = true;                               // if false, the launcher hears of failures only, not of begin and end
  // Tells the store, within that time, that this process is done with the job.
  std::function<void(std::chrono::milliseconds at_most)> leave_job = [](std::chrono::milliseconds) {};
  std::atomic<std::int64_t> mismatch_at{-1};  // number of the world's last call when another group had a Mismatch
  std::atomic<bool> blames_another{false};    // a group is over because of another rank, and its survivors have formed none since
  bool temporary = false;                     // adopted by sync until it looks again
  InitOptions options;                        // with which the process has joined
  Terms terms;                                // the same
  rendezvous::JobIdentity facts;              // of the job, without its members: what its next generation is formed with
  std::shared_ptr<group::Group> whole;        // the group of all processes of the job: the world, or what shrink_group has left of it
  std::int64_t tickets_done = 0;              // of newcomers: those before it need nothing any more
  // With the keys that this process has made for this world, and for those that were to follow and were given up; and those of the world before.
  std::vector<std::shared_ptr<store::OwnKeysStore>> keys, keys_before;
  /// Returns the device that this process computes on; nullopt: none.
  std::optional<Device> device() const;
  /// Tells whether no call of the world was made since one of another group was a Mismatch.
  bool is_after_mismatch() const;
  /// Returns the generation of the job in whose world the ranks are; 0 where they are not those of a job.
  int generation() const { return terms.are_job ? facts.growth.generation : 0; }
  /// Returns the number by which the launcher knows a rank of the world; negative numbers as they are.
  int place_of(int rank_in_world) const;
  /// Returns the name that the launcher has given the process of a rank of the world.
  std::string name_of(int rank_in_world) const;
  ~State();
};

/// Returns the calling thread's state inside run_threads, else the process's, else that of a process without a launcher. Throws NotInitialized.
State& current();
/// Returns the calling thread's or the process's state, or null where neither was initialized.
State* initialized();
/// Returns the calling thread's own state, which only run_threads sets.
State*& of_thread();

/// Tells `unisono run`, if it started this rank, the rank's status.
void tell_launcher(const State& state, const std::string& status) noexcept;

/// Tells it that a group of this rank is over because of rank `culprit` of the world (-1: of no rank in particular). After the failure of another
/// rank was told, a failure that names this rank itself is a consequence and is not told: the first cause stays.
void tell_failure(State& state, int culprit, const std::string& message) noexcept;

/// Returns the status of a rank whose last call was a Mismatch, with the culprit's rank in the world (or -1) and how many ranks were compared.
std::string mismatch_status(int culprit, int ranks, const std::string& text);

/// Logs one line with what was decided for a group.
void log_group(const ProcessGroup& group);

std::unique_ptr<State> join(const InitOptions& options, const Terms& terms = {});
/// Makes a world of one.
std::unique_ptr<State> alone();
/// Makes the state of a world whose members have met. Nobody is told of it yet. Collective.
std::unique_ptr<State> form_world(const InitOptions& options, const Terms& terms, const rendezvous::JobIdentity& identity, const Formation& formation,
                                  const base::Deadline& deadline);
/// Lets the log, the record and the launcher know that this process is that rank now.
void begin(State& state);
/// Puts the state of a later generation in the place of the process's own, which ends.
void replace_own(std::unique_ptr<State> grown);
/// Ends the state of a generation that is over; the job goes on.
void retire(State& state);
/// Waits for the calls under way, says goodbye and ends the thread.
void leave(State& state, coordination::Leaving how);
/// Ends after a failure, without waiting for any rank.
void abandon(State& state, coordination::Leaving how);
/// Tells the members of all groups of this rank that it gives up, and how: "ended with std::runtime_error: no such file". `blamed`: the rank of the
/// world that the reason names.
void give_up(State& state, std::string_view how, std::optional<int> blamed = {});

std::optional<int> local_rank_hint();

}  // namespace unisono::context
