// Forms groups of some of the world's processes: new_group, split_group, local_group, shrink_group.

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error_place.h"
#include "base/log.h"
#include "context/formation.h"
#include "context/formed_groups.h"
#include "context/shrinking.h"
#include "context/state.h"
#include "engines/registry.h"
#include "store/wrappers.h"
#include "store/requests.h"
#include "unisono/detail/request.h"

namespace unisono::context {

std::shared_ptr<Store> FormedGroups::part_for(const std::string& members, int number, const std::string& prefix) const {
  return std::make_shared<store::OwnKeysStore>(std::make_shared<PrefixStore>(prefix, store_),
                                               [left = left_keys_, members, number, prefix](std::vector<std::string>&& keys) {
                                                 for (std::string& key : keys) key = prefix + "/" + key;  // as PrefixStore does
                                                 left->leave(members, number, std::move(keys));
                                               });
}

void FormedGroups::erase_left_keys(const std::string& members, int number) const {
  for (const std::string& key : left_keys_->take_before(members, number)) store_->erase(key);
}

void FormedGroups::add(const std::shared_ptr<group::Group>& group) {
  std::erase_if(groups_, [](const auto& other) { return other.expired(); });
  groups_.push_back(group);
}

std::vector<std::shared_ptr<group::Group>> FormedGroups::open() const {
  std::vector<std::shared_ptr<group::Group>> open;
  for (const auto& member : groups_) {
    if (auto group = member.lock()) open.push_back(std::move(group));
  }
  return open;
}

void log_group(const ProcessGroup& group) {
  const auto& facts = group.implementation()->facts();
  base::debug(fmt::format("group {}: rank {} of {}, engine {}, timeout {} s; compared: operation, dtype, count, op, root{}", group.name(),
                          group.rank(), group.size(), group.backend(), std::chrono::duration_cast<std::chrono::seconds>(facts.timeout()).count(),
                          facts.compares_shapes() ? ", shape" : ""));
}

}  // namespace unisono::context

namespace unisono {
namespace {

using base::with_place;
using context::State;
using namespace std::chrono_literals;

constexpr auto time_after_deadline = 2s;  ///< to ask the store who is missing, and to tell the others

std::string list(std::span<const int> ranks, const char* between) {
  std::string text;
  for (const int r : ranks) text += (text.empty() ? "" : between) + std::to_string(r);
  return text;
}

std::string braced(std::span<const int> ranks) { return fmt::format("{{{}}}", list(ranks, ", ")); }

void check_members(const State& state, std::span<const int> ranks, const char* operation) {
  const auto wrong = [&](const std::string& what) { throw InvalidArgument(what, {.operation = operation, .rank = state.rank}); };
  if (ranks.empty()) wrong("a group has at least one member");
  std::set<int> seen;
  for (const int r : ranks) {
    if (r < 0 || r >= state.world_size) wrong("rank " + std::to_string(r) + " is not in the world of " + std::to_string(state.world_size));
    if (!seen.insert(r).second) wrong("rank " + std::to_string(r) + " is named twice");
  }
}

/// Describes a group that is to be formed: its members in group order, and a key that is the same on all members and differs from that of every other
/// group.
struct Plan {
  const char* operation;
  std::vector<int> members;
  std::string name, key;
  GroupOptions options = {};
  int number = -1;  // of the groups of these members, from 0; -1: of survivors, who are no more afterwards
  /// Returns the members as keys call them.
  std::string list_of_members() const { return list(members, "."); }
  bool is_all_or_none = false;  // a member that cannot have the group keeps all others from having it
};

/// Returns the group's part of the store in which groups are formed.
std::shared_ptr<Store> store_of(const State& state, const Plan& plan) {
  const std::string prefix = "group/" + plan.key + "/";
  if (plan.number < 0) return std::make_shared<PrefixStore>(prefix, state.groups.store());
  return state.groups.part_for(plan.list_of_members(), plan.number, prefix);
}

std::chrono::milliseconds timeout_of(const Plan& plan, const group::Group& world) { return plan.options.timeout.value_or(world.facts().timeout()); }

/// Checks the options that are wrong for every group.
void check_options(const State& state, const char* operation, const GroupOptions& options) {
  if (options.timeout && options.timeout->count() < 0) {
    throw InvalidArgument(fmt::format("the timeout is negative: {} ms", options.timeout->count()), {.operation = operation, .rank = state.rank});
  }
  if (!options.backend.empty()) static_cast<void>(engines::parse_request(options.backend));  // throws where there is no such backend
}

/// Publishes the backend that this member asks for, before it joins. A member that differs from the first one written records the difference for all.
void say_backend(Store& store, const Plan& plan, int rank) {
  const std::string own = plan.options.backend.empty() ? "the world's" : plan.options.backend;
  const std::string first = store.compare_set("backend", "", own);
  if (first != own) store.set("differs", fmt::format("rank {} asks for backend {}, and others for {}", rank, own, first));
}

/// Makes the core of a group that has several members or works on devices. The death or failure of a member is noticed meanwhile, as in any call.
std::unique_ptr<group::GroupCore> make_core(State& state, const Plan& plan, int rank, const base::RepeatedTexts& host_names) {
  const group::Group& world = *state.world->implementation();
  const base::Deadline deadline(timeout_of(plan, world));
  const store::RequestLimit limit(base::clamped(deadline.timeout()) + time_after_deadline);
  const std::shared_ptr<Store> store = store_of(state, plan);
  store->set_timeout(deadline.timeout());
  const auto watch =
      std::make_shared<const context::MemberWatch>(context::MemberWatch::Parts{.operation = plan.operation,
                                                                               .group = plan.name,
                                                                               .rank = rank,
                                                                               .members = plan.members,
                                                                               .hosts = host_names,
                                                                               .world_size = state.world_size,
                                                                               .world = context::view_of(world.core().shared_coordination()),
                                                                               .store = store});
  context::Formation formation({.operation = plan.operation,
                                .group = plan.name,
                                .rank = rank,
                                .size = static_cast<int>(plan.members.size()),
                                .hosts = host_names,
                                .store = store,
                                .look = [watch] { watch->look(); }});
  group::CoreOptions options;
  options.group_name = plan.name;
  options.key = plan.key;
  options.rank = rank;
  options.global_ranks = plan.members;
  options.store = formation.watched();
  options.launcher.store = state.launcher.store();
  if (state.job.has_names()) options.launcher.names = state.job.names_of(plan.members);
  options.world = world.core().shared_coordination();
  const auto explained = [&](const auto& step) {
    try {
      return step();
    } catch (...) {
      const std::exception_ptr error = watch->explain(std::current_exception());
      formation.give_up(error);
      std::rethrow_exception(error);
    }
  };
  if (plan.members.size() > 1) {
    const auto differs = explained([&] {
      say_backend(*formation.watched(), plan, rank);
      watch->assemble(*formation.watched(), deadline);
      if (plan.number >= 0) state.groups.erase_left_keys(plan.list_of_members(), plan.number);
      return formation.watched()->try_get("differs");
    });
    if (differs) {  // all members throw it, so nobody has to be told
      throw InvalidArgument(*differs, {.operation = plan.operation, .group = plan.name, .rank = rank, .hint = "give all members the same backend"});
    }
  }
  options.timeout = deadline.left();
  auto core = explained([&] { return state.groups.make_core(options, plan.options.backend); });
  if (plan.is_all_or_none) {
    context::commit(formation, static_cast<int>(plan.members.size()), deadline,
                    [&](const std::exception_ptr& error) { return watch->explain(error); });
  }
  return core;
}

/// Forms a group that this rank is a member of.
ProcessGroup form(State& state, const Plan& plan) {
  const group::Group& world = *state.world->implementation();
  const std::vector<int>& members = plan.members;
  group::GroupParts parts;
  parts.name = plan.name;
  parts.rank = static_cast<int>(std::find(members.begin(), members.end(), state.rank) - members.begin());
  parts.host_names = base::RepeatedTexts(members.size(), [&](std::size_t i) -> const std::string& { return world.facts().host_name(members[i]); });
  parts.global_ranks = members;
  parts.generation = state.job.generation();
  parts.timeout = timeout_of(plan, world);
  parts.progress = state.progress;
  parts.recorder = state.recorder;
  if (members.size() == 1 && !world.facts().device()) {
    parts.core = std::make_unique<group::GroupCore>(group::parts_alone());
  } else {
    parts.core = make_core(state, plan, parts.rank, parts.host_names);
    const auto in_world = [ranks = parts.global_ranks](int r) { return r < 0 ? r : ranks[static_cast<std::size_t>(r)]; };
    parts.on_failure = [&state, in_world](const Failure& failure) { state.launcher.tell_failure(in_world(failure.culprit), failure.message); };
    parts.on_error_of_all = [&state, in_world](const std::string& text, int culprit, int compared) {
      state.mismatch_at = static_cast<std::int64_t>(state.world->implementation()->facts().sequence());
      state.launcher.tell_mismatch(in_world(culprit), compared, text);
    };
  }
  auto group = std::make_shared<group::Group>(std::move(parts));
  state.groups.add(group);
  ProcessGroup formed(std::move(group));
  context::log_group(formed);
  return formed;
}

std::optional<ProcessGroup> form_listed(State& state, std::span<const int> ranks, const char* operation, const GroupOptions& options = {}) {
  if (std::find(ranks.begin(), ranks.end(), state.rank) == ranks.end()) return std::nullopt;
  const std::string members = list(ranks, ".");
  const int number = state.groups.count(members);
  return form(state, {.operation = operation,
                      .members = {ranks.begin(), ranks.end()},
                      .name = braced(ranks),
                      .key = members + "#" + std::to_string(number),
                      .options = options,
                      .number = number});
}

std::optional<ProcessGroup> split(const ProcessGroup& parent, int color, int key, const GroupOptions& options) {
  State& state = context::current();
  check_options(state, "split_group", options);
  std::array<int, 2> mine{color, key};
  std::vector<int> all(2 * static_cast<std::size_t>(parent.size()));
  detail::run({.operation = Operation::all_gather,
               .in = TensorView(mine.data(), DType::int32, mine.size()),
               .out = TensorView(all.data(), DType::int32, all.size()),
               .label = "split_group"},
              parent, {.where = options.where});
  if (color < 0) return std::nullopt;
  std::vector<int> members;  // ranks in the parent
  for (int r = 0; r < parent.size(); ++r) {
    if (all[2 * static_cast<std::size_t>(r)] == color) members.push_back(r);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return all[2 * static_cast<std::size_t>(a) + 1] < all[2 * static_cast<std::size_t>(b) + 1]; });
  for (int& r : members) r = parent.global_rank(r);
  return form_listed(state, members, "split_group", options);
}

std::optional<ProcessGroup> shrink(const ProcessGroup& group) {
  State& state = context::current();
  group::Group& old = *group.implementation();
  if (!old.errors().has_lost_a_member()) {  // which a call of another group may have met
    throw InvalidArgument("the group is sound; there is nothing to shrink", {.operation = "shrink_group", .group = old.name(), .rank = old.rank()});
  }
  auto survivors = context::agree_on_survivors(state, old);
  if (!survivors) return std::nullopt;
  std::vector<int> members = std::move(survivors->ranks);
  for (int& r : members) r = group.global_rank(r);
  auto shrunk =
      form(state, {.operation = "shrink_group", .members = members, .name = braced(members), .key = survivors->key, .is_all_or_none = true});
  if (state.whole == group.implementation()) {
    context::tell_of_the_lost(state, old, members);
    state.whole = shrunk.implementation();
  }
  state.recorder->set_state(recorder::RankState::running);
  state.launcher.tell_shrunk();
  return shrunk;
}

}  // namespace

std::optional<ProcessGroup> new_group(std::span<const int> global_ranks, const GroupOptions& options) {
  return base::with_place(options.where, [&] {
    State& state = context::current();
    check_members(state, global_ranks, "new_group");
    check_options(state, "new_group", options);
    return form_listed(state, global_ranks, "new_group", options);
  });
}
std::optional<ProcessGroup> new_group(std::initializer_list<int> global_ranks, const GroupOptions& options) {
  return new_group(std::span<const int>(global_ranks.begin(), global_ranks.size()), options);
}
ProcessGroup new_group(const GroupOptions& options) {
  return *new_group(base::with_place(options.where, [] { return context::current().world->global_ranks(); }), options);
}
std::optional<ProcessGroup> split_group(const ProcessGroup& parent, int color, int key, const GroupOptions& options) {
  return base::with_place(options.where, [&] { return split(parent, color, key, options); });
}
ProcessGroup local_group(std::source_location where) {
  return base::with_place(where, [] {
    State& state = context::current();
    if (!state.local) state.local = form_listed(state, state.topology.local_members, "local_group");
    return *state.local;
  });
}
std::optional<ProcessGroup> shrink_group(const ProcessGroup& group, std::source_location where) {
  return base::with_place(where, [&] { return shrink(group); });
}

}  // namespace unisono
