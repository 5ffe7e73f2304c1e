#include "rendezvous/settle.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "rendezvous/own_address.h"
#include "store/authentication.h"
#include "store/token.h"

namespace unisono::rendezvous {
namespace {

/// The time that leaving may take where the store does not answer any more.
constexpr std::chrono::milliseconds leave_time(1000);

/// Returns a name for a job that nobody has named. Its members know each other, and no two jobs have the same processes.
std::string name_of(const std::vector<Member>& members) {
  constexpr std::size_t length = 16;
  std::string all;
  for (const Member& member : members) all += fmt::format("{}\n{}\n{}\n", member.machine, member.host, member.pid);
  return store::digest(all).substr(0, length);
}

}  // namespace

JobIdentity settle(Plan plan, Joined joined, const std::shared_ptr<Store>& store, std::shared_ptr<Store> view, const Route& route,
                   std::shared_ptr<Presence> presence, Owner owner) {
  const auto elsewhere = [&](const Member& member) { return member.machine != joined.members.front().machine; };
  const bool one_network = std::ranges::none_of(joined.members, elsewhere);
  JobIdentity identity = std::move(plan.identity);
  identity.rank = joined.rank;
  identity.world_size = plan.world_size;
  identity.members = std::move(joined.members);
  identity.generation = joined.generation;
  if (identity.job_id.empty()) identity.job_id = name_of(identity.members);
  if (!identity.token) identity.token = store::said_token(plan.environment);
  base::set_log_rank(fmt::format("rank {}", identity.rank));
  base::debug(fmt::format("rank {} of {}, launched by {}, met in {}", identity.rank, identity.world_size, to_string(identity.launcher), plan.place));
  identity.address = own_address(plan.environment, route, one_network);
  if (plan.store_may_end) {
    identity.store = std::move(view);
    return identity;
  }
  const auto departure = std::make_shared<Departure>(store, joined.seat, std::move(presence), owner);
  identity.leave = [departure](std::chrono::milliseconds at_most) { departure->leave(at_most); };
  Store* raw = view.get();
  identity.store = {raw, [view = std::move(view), departure](Store*) mutable {
                      departure->leave(leave_time);
                      view.reset();
                    }};
  return identity;
}

JoinRequest join_request(const Plan& plan) {
  return {.self = own_record(plan.rank), .world_size = plan.world_size, .group_name = plan.group_name, .library = plan.library};
}

std::shared_ptr<Store> part_of(const std::shared_ptr<Store>& store, const Joined& joined) {
  return std::make_shared<PrefixStore>(joined.prefix + "job", store);
}

}  // namespace unisono::rendezvous
