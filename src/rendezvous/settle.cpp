#include "rendezvous/settle.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/host.h"
#include "base/log.h"
#include "rendezvous/own_address.h"
#include "store/token.h"

namespace unisono::rendezvous {
namespace {

/// The time that leaving may take where the store does not answer any more.
constexpr std::chrono::milliseconds leave_time(1000);

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
  if (!identity.token) identity.token = store::said_token(plan.environment);
  base::set_log_rank(fmt::format("rank {}", identity.rank));
  base::debug(fmt::format("rank {} of {}, launched by {}, met in {}", identity.rank, identity.world_size, to_string(identity.launcher), plan.place));
  identity.address = own_address(plan.environment, route, one_network);
  const auto in_other_network = [&](const Member& member) {
    return base::network_of(member.machine) != base::network_of(identity.members.front().machine);
  };
  if (std::ranges::any_of(identity.members, in_other_network)) check_for_other_hosts(identity.address, plan.environment);
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
