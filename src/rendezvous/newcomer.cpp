#include "rendezvous/newcomer.h"

#include <fmt/format.h>

#include "rendezvous/launcher_store.h"
#include "rendezvous/plan.h"
#include "rendezvous/reach.h"
#include "rendezvous/record.h"
#include "store/wrappers.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

/// In the place of a rank that was missed: it is not this process's to say who is to blame.
constexpr int nobody = -1;

}  // namespace

std::optional<JobIdentity> facts_of_newcomer(const JobRequest& request, const base::Environment& environment) {
  const auto number = environment.get_int("UNISONO_NEWCOMER");
  if (!number || !environment.has("UNISONO_LAUNCHER_FD") || request.store || request.init_method != "env://") return std::nullopt;
  const EnvironmentIdentity given = identity_from_environment(environment);
  if (!given.rank || !given.world_size) {
    throw InvalidArgument("UNISONO_NEWCOMER is set, but not RANK and WORLD_SIZE", info("it is for processes that `unisono run` starts"));
  }
  JobIdentity facts;
  facts.launcher = given.launcher;
  facts.job_id = given.job_id;
  if (given.local_rank) facts.local_rank = given.local_rank->value;
  if (request.local_rank) facts.local_rank = request.local_rank;
  if (given.local_world_size) facts.local_world_size = given.local_world_size->value;
  if (given.node_rank) facts.node_rank = given.node_rank->value;
  const base::Deadline deadline(join_timeout(request.timeout, environment));
  facts.launcher_store = launcher_store(environment, deadline);
  facts.growth.own_name = fmt::format("{}.{}", given.rank->value, *number);
  facts.growth.store = facts.launcher_store;
  if (const auto job = store_of_launchers(*facts.launcher_store, deadline)) {
    facts.growth.store = std::make_shared<PrefixStore>(job->prefix, job->client);
    if (const auto addresses = job->client->addresses()) facts.growth.route = addresses->own;
    facts.token = job->token;
  }
  return facts;
}

JobIdentity meet_generation(const JobIdentity& facts, const std::shared_ptr<Store>& job, const GenerationPlan& generation, int rank,
                            const base::Deadline& deadline, const std::function<void()>& look, const base::Environment& environment) {
  Plan plan(environment);
  plan.rank = rank;
  plan.world_size = static_cast<int>(generation.names.size());
  plan.timeout = deadline.timeout();
  plan.place = fmt::format("generation {} of the job", generation.number);
  plan.identity = facts_of(facts);
  const auto store = std::make_shared<PrefixStore>(GrowthKeys::prefix(generation.number) + "meeting", job);
  store->set_timeout(deadline.timeout());
  store::WatchedStore watched(store, look);
  JoinRequest request = join_request(plan);
  request.most_generations = 1;
  auto joined = join(watched, request, deadline);
  if (!joined) {
    look();  // which says why, as a rule
    throw Timeout("another process has given this generation of the job up", info(), {nobody});
  }
  auto view = part_of(store, *joined);
  JobIdentity identity = settle(std::move(plan), std::move(*joined), store, std::move(view), facts.growth.route);
  identity.growth.generation = generation.number;
  identity.growth.names = generation.names;
  return identity;
}

JobIdentity facts_of(const JobIdentity& identity) {
  JobIdentity facts;
  facts.local_rank = identity.local_rank;
  facts.local_world_size = identity.local_world_size;
  facts.node_rank = identity.node_rank;
  facts.launcher_store = identity.launcher_store;
  facts.launcher = identity.launcher;
  facts.job_id = identity.job_id;
  facts.token = identity.token;
  facts.growth = identity.growth;
  return facts;
}

}  // namespace unisono::rendezvous
