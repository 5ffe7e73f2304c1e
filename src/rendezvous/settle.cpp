#include "rendezvous/settle.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "base/host.h"
#include "base/log.h"
#include "rendezvous/own_address.h"
#include "rendezvous/slurm.h"
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

/// Warns once in a process, which may be in many groups. A store on TCP has asked for the token, and warned, itself.
void warn_of_no_token() {
  static std::atomic_flag has_warned;
  if (has_warned.test_and_set()) return;
  base::warn("the ranks of several hosts ask each other for no token: whoever reads or writes the store where they met can join or disturb the job");
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
  if (!route && !one_network && identity.rank == 0 && identity.token && *identity.token == "none") warn_of_no_token();
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
  JoinRequest request{.self = own_record(plan.rank), .world_size = plan.world_size, .group_name = plan.group_name, .library = plan.library};
  if (std::string advice = advice_for_batch_script(plan.environment, plan.world_size); !advice.empty())
    request.hint_where_missing = std::move(advice);
  return request;
}

std::shared_ptr<Store> part_of(const std::shared_ptr<Store>& store, const Joined& joined) {
  return std::make_shared<PrefixStore>(joined.prefix + "job", store);
}

}  // namespace unisono::rendezvous
