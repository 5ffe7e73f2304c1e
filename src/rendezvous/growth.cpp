#include "rendezvous/growth.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rendezvous/launcher_store.h"
#include "rendezvous/plan.h"
#include "rendezvous/reach.h"
#include "rendezvous/record.h"
#include "store/requests.h"
#include "store/wrappers.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

constexpr std::string_view tickets_key = "unisono/grow/tickets";
constexpr std::string_view generations_key = "unisono/grow/generations";
constexpr std::string_view formed = "formed", abandoned = "abandoned ", refused = "refused";

std::string ticket_key(std::int64_t ticket) { return fmt::format("unisono/grow/ticket/{}", ticket); }
std::string call_key(std::int64_t ticket, int call) { return fmt::format("unisono/grow/call/{}/{}", ticket, call); }
std::string exit_key(std::string_view name) { return fmt::format("unisono/exit/{}", name); }
std::string lost_key(std::string_view name) { return fmt::format("unisono/lost/{}", name); }
std::string generation_key(int number, std::string_view what) { return fmt::format("{}{}", GrowthKeys::prefix(number), what); }

int number_in(std::string_view text) {
  int number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc() || number < 0) {
    throw ProtocolError("the store holds a malformed number of a growing job");
  }
  return number;
}

GenerationPlan parse(int number, const std::string& text) {
  std::istringstream fields(text);
  GenerationPlan generation{.number = number, .names = {}};
  std::int64_t timeout = 0;
  fields >> generation.survivors >> timeout;
  generation.timeout = std::chrono::milliseconds(timeout);
  for (std::string name; fields >> name;) generation.names.push_back(name);
  if (generation.survivors < 1 || static_cast<std::size_t>(generation.survivors) > generation.names.size()) {
    throw ProtocolError("the store holds a malformed list of members of a generation");
  }
  return generation;
}

/// In the place of a rank that was missed: it is not this process's to say who is to blame.
constexpr int no_rank = -1;

}  // namespace

std::optional<Decision> Decision::parse(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (text == rendezvous::formed) return Decision{.formed = true};
  if (!text.starts_with(abandoned)) throw ProtocolError("the store holds a malformed decision about a generation");
  text.remove_prefix(abandoned.size());
  Decision decision;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), decision.culprit);
  if (error != std::errc()) throw ProtocolError("the store holds a malformed decision about a generation");
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  decision.text = text.substr(std::min<std::size_t>(1, text.size()));
  return decision;
}

int place_of(std::string_view name) { return number_in(name); }

std::string GrowthKeys::prefix(int number) { return fmt::format("unisono/grow/{}/", number); }

std::int64_t GrowthKeys::ask(std::string_view name) {
  const std::int64_t ticket = store_.add(tickets_key, 1) - 1;
  store_.set(ticket_key(ticket), name);
  return ticket;
}

GenerationPlan GrowthKeys::await_call(std::int64_t ticket, int call) {
  const std::string text = store_.get(call_key(ticket, call), base::longest_timeout);
  if (text == refused) {
    throw Timeout("this process was taken in by the running ranks, and did not come in time",
                  {.operation = "initialize", .hint = "the launcher starts another one in its place, if --max-restarts allows"}, {});
  }
  return read(number_in(text));
}

bool GrowthKeys::may_be_called_again(const Newcomer& newcomer, int call, int last) {
  // The members of a generation that has no decision are those that ask now, so it will get none from them.
  const auto decision = abandon(read(last), -1, "the members have gone on");
  if (decision.formed) return false;
  const GenerationPlan generation = read(last);
  const auto culprit = static_cast<std::size_t>(decision.culprit);
  if (decision.culprit < 0 || culprit >= generation.names.size() || generation.names[culprit] != newcomer.name) return true;
  note_lost(newcomer.name);  // it may be unable to end by itself, and its place is for another one
  store_.compare_set(call_key(newcomer.ticket, call), "", refused);
  return false;
}

std::vector<Newcomer> GrowthKeys::waiting(std::int64_t& done) {
  std::vector<Newcomer> found;
  const auto text = store_.try_get(tickets_key);
  const std::int64_t tickets = text ? number_in(*text) : 0;
  bool all_done = true;
  for (std::int64_t ticket = done; ticket < tickets; ++ticket) {
    const auto name = store_.try_get(ticket_key(ticket));
    const bool waits = name && !store_.try_get(exit_key(*name));
    bool may_be_called = waits;
    if (waits) {
      int call = 0;
      std::optional<std::string> last;
      for (auto said = store_.try_get(call_key(ticket, call)); said; said = store_.try_get(call_key(ticket, ++call))) last = said;
      if (last) may_be_called = *last != refused && may_be_called_again({ticket, *name}, call, number_in(*last));
    }
    if (may_be_called) found.push_back({ticket, *name});
    all_done = all_done && name && !may_be_called;  // a ticket without a name will have one in a moment
    if (all_done) done = ticket + 1;
  }
  return found;
}

GenerationPlan GrowthKeys::call(std::span<const std::string> members, std::span<const Newcomer> newcomers, std::chrono::milliseconds timeout) {
  GenerationPlan generation{.number = static_cast<int>(store_.add(generations_key, 1)) + 1,
                            .survivors = static_cast<int>(members.size()),
                            .timeout = timeout,
                            .names = {members.begin(), members.end()}};
  for (const Newcomer& newcomer : newcomers) generation.names.push_back(newcomer.name);
  store_.set(generation_key(generation.number, "members"),
             fmt::format("{} {} {}", generation.survivors, timeout.count(), fmt::join(generation.names, " ")));
  for (const Newcomer& newcomer : newcomers) {
    const std::string own = std::to_string(generation.number);
    for (int call = 0; store_.compare_set(call_key(newcomer.ticket, call), "", own) != own;) ++call;
  }
  return generation;
}

GenerationPlan GrowthKeys::read(int number) { return parse(number, store_.get(generation_key(number, "members"))); }

void GrowthKeys::look(const GenerationPlan& generation, int rank) {
  std::vector<std::string> keys{generation_key(generation.number, "decision")};
  for (const std::string& name : generation.names) keys.push_back(exit_key(name));
  const auto values = store::try_get_all(store_, keys);
  if (const auto decision = Decision::parse(values[0].value_or("")); decision && !decision->formed) {
    throw PeerFailed(decision->text, {.operation = "grow_group", .rank = rank, .culprit = decision->culprit}, PeerFailed::Cause::aborted);
  }
  for (std::size_t r = 0; r < generation.names.size(); ++r) {
    if (!values[r + 1]) continue;
    throw PeerFailed(fmt::format("rank {} (started as {}) ended while the group was formed: {}", r, generation.names[r], *values[r + 1]),
                     {.operation = "grow_group", .rank = rank, .culprit = static_cast<int>(r)}, PeerFailed::Cause::exited);
  }
}

void GrowthKeys::ready(const GenerationPlan& generation) {
  const auto all = static_cast<std::int64_t>(generation.names.size());
  if (store_.add(generation_key(generation.number, "ready"), 1) == all) {
    store_.compare_set(generation_key(generation.number, "decision"), "", formed);
  }
}

Decision GrowthKeys::await_decision(const GenerationPlan& generation, std::chrono::milliseconds timeout) {
  return *Decision::parse(store_.get(generation_key(generation.number, "decision"), timeout));
}

Decision GrowthKeys::abandon(const GenerationPlan& generation, int culprit, std::string_view why) {
  const std::string key = generation_key(generation.number, "decision");
  return *Decision::parse(store_.compare_set(key, "", fmt::format("{}{}\t{}", abandoned, culprit, why)));
}

void GrowthKeys::note_lost(std::string_view name) { store_.set(lost_key(name), "1"); }

bool GrowthKeys::is_lost(std::string_view name) { return store_.try_get(lost_key(name)).has_value(); }

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
    throw Timeout("another process has given this generation of the job up", info(), {no_rank});
  }
  JobIdentity identity = settle(std::move(plan), std::move(*joined), store, facts.growth.route);
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
