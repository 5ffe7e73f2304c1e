#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "rendezvous/rendezvous.h"
#include "unisono/context.h"
#include "unisono/store.h"

namespace unisono::context {

/// Properties that distinguish the world of a job from other groups that join.
struct Terms {
  std::string name = "world";  ///< the group's name
  bool are_job = true;         ///< true if the ranks are all that the launcher started, so that its local ranks apply
  bool is_adopted = false;     ///< true if somebody else formed the job and ends it, so that the launcher is owed no `finalize`
  std::string library = {};    ///< see MembershipOptions
};

/// The job that a process has joined, and how it has joined. The job's next generation is formed with the same.
struct Job {
  InitOptions options = {};
  Terms terms = {};
  rendezvous::JobIdentity facts = {};  ///< of the job, without its members

  /// Returns the generation of the job in whose world the ranks are; 0 where they are not those of a job.
  int generation() const { return terms.are_job ? facts.growth.generation : 0; }
  /// Returns true where the launcher hears of the job's begin and end, and not of failures only.
  bool owes_finalize() const { return terms.are_job && !terms.is_adopted; }
  /// Returns true where processes that the launcher starts later are taken in.
  bool can_grow() const { return facts.growth.store != nullptr; }
  /// Returns true where the launcher's names for the processes are not their ranks.
  bool has_names() const { return !facts.growth.names.empty(); }
  /// Returns the name that the launcher has given the process of a rank of the world.
  std::string name_of(int rank_in_world) const {
    const auto& names = facts.growth.names;
    const auto index = static_cast<std::size_t>(rank_in_world);
    return index < names.size() ? names[index] : std::to_string(rank_in_world);
  }
  std::vector<std::string> names_of(std::span<const int> ranks_in_world) const {
    std::vector<std::string> names;
    for (const int r : ranks_in_world) names.push_back(name_of(r));
    return names;
  }
};

/// The end of this process's part in the job's store, which lives as long as this object. A process that serves the store keeps it until the other
/// ranks have said that they no longer need it.
class Goodbye {
 public:
  Goodbye() = default;  ///< nobody waits for it
  Goodbye(const rendezvous::JobIdentity& identity, const Terms& terms);

  /// Says goodbye, or waits for that of the others. `look` throws where one of these ranks, which have not said theirs, is dead.
  void say(const base::Deadline& deadline, const std::function<void(std::span<const int> others)>& look) const;
  /// Tells the store, within that time, that this process is done with the job.
  void leave_job(std::chrono::milliseconds at_most) const { leave_job_(at_most); }

 private:
  std::shared_ptr<Store> store_;
  int rank_ = 0, world_size_ = 1;
  std::string key_;            // under which ranks say that they are done; empty if nobody waits for it
  bool serves_store_ = false;  // true if other ranks need this process for the store
  std::function<void(std::chrono::milliseconds at_most)> leave_job_ = [](std::chrono::milliseconds) {};
};

/// Returns the prefix of a world's keys in the job's store.
std::string world_prefix(const rendezvous::JobIdentity& identity);

}  // namespace unisono::context
