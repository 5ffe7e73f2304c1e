#pragma once

#include <cstddef>
#include <string>

#include "rendezvous/rendezvous.h"
#include "unisono/context.h"

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
  /// Returns the name that the launcher has given the process of a rank of the world.
  std::string name_of(int rank_in_world) const {
    const auto& names = facts.growth.names;
    const auto index = static_cast<std::size_t>(rank_in_world);
    return index < names.size() ? names[index] : std::to_string(rank_in_world);
  }
};

}  // namespace unisono::context
