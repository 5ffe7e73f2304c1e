#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/deadline.h"
#include "base/environment.h"
#include "rendezvous/growth.h"
#include "rendezvous/rendezvous.h"

namespace unisono::rendezvous {

/// Returns, for a process that the launcher has started while the job ran, what is known of the job: an identity without rank, size and members.
/// Nothing for any other process, and for one that says itself where it meets the others.
std::optional<JobIdentity> facts_of_newcomer(const JobRequest& request, const base::Environment& environment);

/// Meets the other members of a generation, as that rank. `facts`: of this process, without members. `job`: the job's store. `look` throws where it
/// is known that a member will not come. Throws what `meet` throws.
JobIdentity meet_generation(const JobIdentity& facts, const std::shared_ptr<Store>& job, const GenerationPlan& generation, int rank,
                            const base::Deadline& deadline, const std::function<void()>& look, const base::Environment& environment);

/// Returns the facts of a process that has met the others, for the next generation.
JobIdentity facts_of(const JobIdentity& identity);

}  // namespace unisono::rendezvous
