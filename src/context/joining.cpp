#include "context/joining.h"

#include <utility>

#include "base/environment.h"
#include "context/formation.h"
#include "context/growth.h"
#include "context/schemes.h"
#include "context/world.h"
#include "engines/plugins.h"
#include "engines/registry.h"
#include "group/calls/shapes.h"
#include "rendezvous/growth.h"
#include "rendezvous/reach.h"
#include "schedule/network_override.h"
#include "schedule/selection.h"
#include "store/wrappers.h"

namespace unisono::context {
namespace {

/// Refuses a wrong request before any rank is waited for.
void check_request(const InitOptions& options, const base::Environment& environment) {
  static_cast<void>(engines::host_backend(options.backend, engines::Look::as_a_rank));
  static_cast<void>(group::wants_shapes(environment));
  static_cast<void>(group::refused_values(environment));
  schedule::check_override(schedule::schedule_override());
  static_cast<void>(schedule::parse_network(schedule::network_override()));
  engines::check_settings(environment);
}

Formation::Parts formation_of_world(const rendezvous::JobIdentity& identity) {
  Formation::Parts parts{.operation = "initialize", .group = {}, .rank = identity.rank, .size = identity.world_size, .store = {}};
  for (const rendezvous::Member& member : identity.members) parts.hosts.push_back(member.host);
  if (identity.world_size == 1) {
    parts.store = std::make_shared<MemoryStore>();
    return parts;
  }
  parts.store = std::make_shared<PrefixStore>(world_prefix(identity), identity.store);
  parts.serves_store = identity.serves_store;
  if (identity.launcher_store) parts.look = [launcher = identity.launcher_store] { rendezvous::throw_if_a_rank_ended(*launcher); };
  return parts;
}

}  // namespace

std::unique_ptr<State> join(const InitOptions& options, const Terms& terms) {
  if (const auto resolved = through_handler(options)) return join(*resolved, terms);
  const auto& environment = base::Environment::process();
  const auto timeout = timeout_of(options, environment);
  check_request(options, environment);
  rendezvous::JobRequest request;
  request.init_method = options.init_method;
  request.rank = options.rank;
  request.world_size = options.world_size;
  request.local_rank = options.local_rank;
  request.group_name = options.group_name;
  request.timeout = timeout;
  request.store = options.store;
  request.store_may_end = !terms.are_job;
  request.library = terms.library;
  request.find_bootstrap = engines::bootstrap;
  if (auto facts = rendezvous::facts_of_newcomer(request, environment)) return join_running_job({options, terms, *std::move(facts)});
  rendezvous::JobIdentity identity = rendezvous::meet(request, environment);
  Formation::Parts parts = formation_of_world(identity);
  std::shared_ptr<store::OwnKeysStore> keys;
  if (identity.growth.store) parts.store = keys = std::make_shared<store::OwnKeysStore>(std::move(parts.store));
  Formation formation(std::move(parts));
  try {
    auto state = form_world(options, terms, identity, formation, base::Deadline(rendezvous::join_timeout(timeout, environment)));
    if (keys) state->keys.add(std::move(keys));
    begin(*state);
    return state;
  } catch (...) {
    const std::exception_ptr error = formation.explain(std::current_exception());
    formation.give_up(error);
    std::rethrow_exception(error);
  }
}

}  // namespace unisono::context
