#include "rendezvous/plan.h"

#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "base/deadline.h"
#include "base/host.h"
#include "base/log.h"
#include "base/printable.h"
#include "rendezvous/own_address.h"
#include "rendezvous/record.h"
#include "rendezvous/slurm.h"
#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view why) { throw InvalidArgument(fmt::format("init_method \"{}\": {}", text, why)); }

/// Returns the part of the query that is for etcd.
std::string_view parse_query(Url& url, std::string_view query, std::string_view whole) {
  const bool is_etcds = whole.starts_with("etcd");
  std::string_view for_etcd;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos) refuse(whole, is_etcds ? "a query is rank=…, world_size=… or ttl=…" : "a query is rank=… or world_size=…");
    const std::string_view name = pair.substr(0, equals);
    const auto value = base::whole_number<int>(pair.substr(equals + 1));
    if (is_etcds && name == "ttl") {
      for_etcd = pair;
      continue;
    }
    if (name != "rank" && name != "world_size")
      refuse(whole, fmt::format("there is no \"{}\" in a query, only {}", name, is_etcds ? "rank, world_size and ttl" : "rank and world_size"));
    if (!value) refuse(whole, fmt::format("the {} is not a whole number", name));
    (name == "rank" ? url.rank : url.world_size) = value;
  }
  return for_etcd;
}

void parse_host_and_port(Url& url, std::string_view place, std::string_view whole) {
  std::string_view port;
  if (place.starts_with('[')) {
    const auto end = place.find(']');
    if (end == std::string_view::npos || place.substr(end + 1, 1) != ":") refuse(whole, "an IPv6 address is written [address]:port");
    url.host = place.substr(1, end - 1);
    port = place.substr(end + 2);
  } else {
    const auto colon = place.rfind(':');
    if (colon == std::string_view::npos) refuse(whole, "the port is missing");
    url.host = place.substr(0, colon);
    port = place.substr(colon + 1);
    if (url.host.find(':') != std::string::npos) refuse(whole, "an IPv6 address is written [address]:port");
  }
  if (url.host.empty()) refuse(whole, "the host is missing");
  const auto number = base::whole_number<int>(port);
  if (!number || *number < 1 || *number > std::numeric_limits<std::uint16_t>::max()) refuse(whole, "the port is a number from 1 to 65535");
  url.port = static_cast<std::uint16_t>(*number);
}

using base::Environment;
using namespace std::chrono_literals;

constexpr auto default_join_timeout = 120s;

/// Returns how many other ranks this one needs descriptors for. Ranks of several hosts under `unisono run`, which serve no store, connect when they
/// need to, and with few: those of a tree and of the schedules between hosts.
rlim_t ranks_with_descriptors(const Plan& plan) {
  constexpr rlim_t most_connections = 256;
  const auto all = static_cast<rlim_t>(plan.world_size);
  const auto local = static_cast<rlim_t>(std::max(plan.identity.local_world_size.value_or(plan.world_size), 0));
  if (plan.identity.launcher != Launcher::unisono || local >= all) return all;
  return local + std::min(all - local, most_connections);
}

// Refuses a job that needs too many descriptors. A later failure would look like a missing rank or an unreadable file.
void check_descriptors(const Plan& plan) {
  const int world_size = plan.world_size;
  rlimit limit{};
  if (world_size == 1 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  // A handle on every other process is needed. The process that serves the store needs a connection to each. Joining needs a few more.
  constexpr rlim_t for_joining = 8;
  const auto needed = 2 * ranks_with_descriptors(plan) + for_joining;
  rlim_t used = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end; entry.increment(error)) ++used;
  if (error && error != std::errc::too_many_files_open) return;  // no /proc here
  if (!error && used + needed <= limit.rlim_cur) return;
  throw BackendUnavailable(fmt::format("a job of {} ranks takes up to {} file descriptors more, and {} of {} are in use", world_size, needed,
                                       error ? "all" : std::to_string(used), limit.rlim_cur),
                           info("raise the limit: ulimit -n"));
}

/// The time that leaving may take where the store does not answer any more.
constexpr std::chrono::milliseconds leave_time(1000);

/// Returns a name for a job that nobody has named. Its members know each other, and no two jobs have the same processes.
std::string name_of(const std::vector<Member>& members) {
  constexpr std::size_t length = 16;
  std::string all;
  for (const Member& member : members) all += fmt::format("{}\n{}\n{}\n", member.machine.get(), member.host.get(), member.pid);
  return store::digest(all).substr(0, length);
}

/// Warns once in a process, which may be in many groups. A store on TCP has asked for the token, and warned, itself.
void warn_of_no_token() {
  static std::atomic_flag has_warned;
  if (has_warned.test_and_set()) return;
  base::warn(
      "the ranks of several hosts ask each other for no token: every process that reads or writes the store where they met can join or disturb the "
      "job");
}

}  // namespace

Url parse_url(std::string_view text) {
  Url url;
  const auto colon = text.find("://");
  if (colon == std::string_view::npos) refuse(text, "it has no scheme; env://, tcp://host:port, file:///path and etcd://host:port/prefix are known");
  const std::string_view scheme = text.substr(0, colon);
  std::string_view place = text.substr(colon + 3);
  std::string_view for_etcd;
  if (const auto mark = place.find('?'); mark != std::string_view::npos) {
    for_etcd = parse_query(url, place.substr(mark + 1), text);
    place = place.substr(0, mark);
  }
  if (scheme == "env") {
    if (!place.empty()) refuse(text, "env:// must be the whole URL");
  } else if (scheme == "tcp") {
    url.scheme = Url::Scheme::tcp;
    parse_host_and_port(url, place, text);
  } else if (scheme == "file") {
    url.scheme = Url::Scheme::file;
    if (place.empty() || place == "/") refuse(text, "it names no file; the whole path is given, with three slashes: file:///path");
    if (!place.starts_with('/')) {
      std::error_code error;
      const std::string whole = std::filesystem::absolute(place, error).lexically_normal().string();
      refuse(text, fmt::format("the file is named by its whole path, with three slashes: file://{}", error ? "/path" : whole));
    }
    url.path = place;
  } else if (scheme == "etcd" || scheme == "etcds") {
    url.scheme = Url::Scheme::etcd;
    url.path = fmt::format("{}://{}{}{}", scheme, place, for_etcd.empty() ? "" : "?", for_etcd);
  } else {
    refuse(text, "unknown scheme; env://, tcp://host:port, file:///path and etcd://host:port/prefix are known");
  }
  return url;
}

std::optional<Said> agree(std::string_view what, const std::optional<Said>& first, const std::optional<Said>& second) {
  if (first && second && first->value != second->value) {
    throw InvalidArgument(fmt::format("the {} is {} by {}, but {} by {}", what, first->value, first->source, second->value, second->source), info());
  }
  return first ? first : second;
}

void check_range(const Plan& plan) {
  if (plan.world_size < 1) throw InvalidArgument(fmt::format("the world size is {}; there is at least one process", plan.world_size), info());
  if (plan.rank && (*plan.rank < 0 || *plan.rank >= plan.world_size)) {
    throw InvalidArgument(fmt::format("rank {} is not within a world of {} processes (0 to {})", *plan.rank, plan.world_size, plan.world_size - 1),
                          info());
  }
  check_descriptors(plan);
  // An unusable UNISONO_INTERFACE is reported before the others wait for a rank that they could not reach.
  if (plan.world_size > 1 && plan.environment.has("UNISONO_INTERFACE")) own_address(plan.environment, {}, true);
  const JobIdentity& identity = plan.identity;
  if (identity.local_rank && *identity.local_rank < 0)
    throw InvalidArgument(fmt::format("the local rank is {}; it is at least 0", *identity.local_rank), info());
  if (identity.local_rank && identity.local_world_size && *identity.local_rank >= *identity.local_world_size) {
    throw InvalidArgument(fmt::format("local rank {} is not within the {} processes of this host", *identity.local_rank, *identity.local_world_size),
                          info());
  }
}

Plan explicit_plan(const JobRequest& request, std::optional<int> rank, std::optional<int> world_size, const Environment& environment) {
  Plan plan(environment);
  plan.rank = rank;
  plan.world_size = world_size.value_or(1);
  plan.group_name = request.group_name;
  plan.library = request.library;
  plan.timeout = join_timeout(request.timeout, environment);
  plan.identity.launcher = infer_launcher(environment);
  plan.identity.local_rank = request.local_rank ? request.local_rank : local_rank_from_environment(environment, rank.value_or(-1), plan.world_size);
  return plan;
}

std::chrono::milliseconds join_timeout(std::chrono::milliseconds requested, const Environment& environment) {
  const auto seconds = environment.get_int("UNISONO_TIMEOUT");
  if (seconds && *seconds <= 0)
    throw InvalidArgument(fmt::format("UNISONO_TIMEOUT is {}; it must be a positive number of seconds", *seconds), info());
  if (requested != default_timeout) return base::clamped(requested);
  return seconds ? std::chrono::seconds(*seconds) : default_join_timeout;
}

Departure::Departure(std::shared_ptr<Store> store, std::string seat, std::shared_ptr<Presence> presence, Owner owner)
    : owner_(owner), store_(std::move(store)), seat_(std::move(seat)), presence_(std::move(presence)) {}

void Departure::leave(std::chrono::milliseconds at_most) noexcept {
  std::call_once(once_, [&] {
    try {
      std::optional<JoinTimeout> brief;
      if (owner_ == Owner::library) brief.emplace(*store_, std::min<std::chrono::milliseconds>(store_->timeout(), at_most));
      store_->set(seat_, left_mark);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the store is gone, so there is no process left to be told
    }
    presence_.reset();
    store_.reset();
  });
}

JobIdentity settle(Plan plan, Joined joined, const std::shared_ptr<Store>& store, const Route& route, std::shared_ptr<Presence> presence, Owner owner,
                   std::shared_ptr<Store> view) {
  if (!view) view = std::make_shared<PrefixStore>(joined.prefix + "job", store);
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
    return base::network_of(member.machine.get()) != base::network_of(identity.members.front().machine.get());
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

void check_secret(const JobIdentity& identity, const base::Environment& environment) {
  if (identity.world_size == 1) return;
  store::check_key_of_tls(identity.token && *identity.token != "none" ? *identity.token : base::Secret(), environment);
  if (identity.store == identity.launcher_store) return;  // only processes that a launcher has started on this host reach it
  const Member& first = identity.members.front();
  const auto elsewhere = std::ranges::find_if(identity.members, [&](const Member& member) { return member.machine != first.machine; });
  if (elsewhere == identity.members.end()) return;
  store::check_token_between(fmt::format("rank {} on {}, rank {} on {}", first.rank, first.host.get(), elsewhere->rank, elsewhere->host.get()),
                             identity.token);
}

}  // namespace unisono::rendezvous
