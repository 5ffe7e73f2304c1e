// meet(): determines the identity of this process and the address of the store, and joins the job.
#include <poll.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/host.h"
#include "base/log.h"
#include "base/thread.h"
#include "rendezvous/carried.h"
#include "rendezvous/join.h"
#include "rendezvous/launcher_store.h"
#include "rendezvous/multicast_discovery.h"
#include "rendezvous/own_address.h"
#include "rendezvous/plan.h"
#include "rendezvous/presence.h"
#include "rendezvous/reach.h"
#include "rendezvous/record.h"
#include "rendezvous/rendezvous.h"
#include "store/authentication.h"
#include "store/wrappers.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using base::Deadline;
using base::Environment;
using namespace std::chrono_literals;

// The process that serves the store gives up this much earlier and tells the others, which cannot ask it for names after it has gone.
constexpr auto courtesy = 250ms;

// A verdict that ends the job is read by the others before the store goes, if they come for it within this time.
constexpr auto last_reads = 2s;

// The reminder of a missing rank is as frequent as that of a long call. It is later than a launcher's, since the ranks of a large job may need a
// while.
constexpr auto reminder_period = 30s;

constexpr std::string_view unnamed_run = "none";  // torchrun's name for every run that was given none
constexpr auto first_retry = 5ms, longest_retry = 200ms;

Route own_end(const store::Client& client) { return client.addresses() ? Route(client.addresses()->own) : std::nullopt; }

/// torchrun's agents end all processes of a run before they start the next. Otherwise only the end of processes on this host is known.
bool is_over_with(const Record& record, const Environment& environment) {
  if (environment.has("TORCHELASTIC_RUN_ID")) return true;
  return record.member.machine == own_record({}).member.machine && base::has_ended(record.member.pid, record.presence);
}

JobIdentity meet_in_store(Plan plan, const std::shared_ptr<Store>& store) {
  plan.place = "the store that the program gave";
  JoinRequest request = join_request(plan);
  if (plan.store_may_end) {
    request.self.presence = base::own_life();
    request.store_outlives_processes = true;
    request.is_over = [&](const Record& record) { return is_over_with(record, plan.environment); };
  }
  Joined joined = *join(*store, request, Deadline(plan.timeout));
  return settle(std::move(plan), std::move(joined), store, {}, {}, Owner::caller);
}

/// The processes of the start have their ranks as names.
Growth growth_of_start(std::shared_ptr<Store> store, int rank, const Route& route) {
  return {.store = std::move(store), .own_name = std::to_string(rank), .names = {}, .generation = 1, .route = route};
}

// Meets in the store that the launcher makes for every attempt. A rank may run one program after another: each is a generation of its own.
JobIdentity meet_under_launcher(Plan plan, const std::shared_ptr<Store>& store) {
  const JoinTimeout bounded(*store, plan.timeout, JoinTimeout::Afterwards::at_most);
  store::WatchedStore watched(store, [&] { throw_if_a_rank_ended(*store); });
  JoinRequest request = join_request(plan);
  request.self.presence = base::own_life();
  request.is_alive = [](const Record& record) { return !base::has_ended(record.member.pid, record.presence); };
  Joined joined = *join(watched, request, Deadline(plan.timeout));
  auto view = joined.generation == 1 ? store : nullptr;
  plan.identity.growth = growth_of_start(store, joined.rank, {});
  plan.place = "the store of unisono run";
  return settle(std::move(plan), std::move(joined), store, {}, {}, Owner::library, std::move(view));
}

// Meets ranks of several hosts in the launchers' store, which outlives rank 0. A host's launcher sees the ends of its own ranks, and is told those of
// the others.
JobIdentity meet_among_hosts(Plan plan, const std::shared_ptr<Store>& launcher, const JobStore& job, const Deadline& deadline) {
  const JoinTimeout bounded(*job.client, plan.timeout, JoinTimeout::Afterwards::at_most);
  const auto store = std::make_shared<PrefixStore>(job.prefix, job.client);
  store::WatchedStore watched(store, [&] { throw_if_a_rank_ended(*launcher); });
  Joined joined = *join(watched, join_request(plan), deadline);
  plan.identity.token = job.token;
  plan.identity.growth = growth_of_start(store, joined.rank, own_end(*job.client));
  plan.place = "the store of unisono run on host 0";
  return settle(std::move(plan), std::move(joined), store, own_end(*job.client));
}

constexpr base::Reminder::Pace waiting = {reminder_period, reminder_period};

void warn(const std::string& text) { base::warn(text); }

/// Returns when nobody else is connected to the store that this process serves. A process that differs from the others ends the job for all; one that
/// asks for the verdict a moment later would otherwise find the store gone, and report that.
void await_last_reads(const store::Client& client) {
  const Deadline deadline(last_reads);
  while (!deadline.passed()) {
    const auto counts = client.own_server()->counts();
    if (counts.connections - counts.pending <= 1) return;
    ::poll(nullptr, 0, 2);
  }
}

Joined join_as_server(store::Client& client, const JoinRequest& request, const Deadline& deadline) {
  try {
    return *join(client, request, deadline);
  } catch (const Mismatch&) {
    await_last_reads(client);
    throw;
  } catch (const ProtocolError&) {
    await_last_reads(client);
    throw;
  }
}

JobIdentity meet_at(Plan plan, const Meeting& meeting) {
  if (plan.rank == 0) {
    const std::shared_ptr<store::Client> client = meeting.serve();
    const JoinTimeout bounded(*client, plan.timeout, JoinTimeout::Afterwards::at_most);
    const JoinRequest request = join_request(plan);
    const auto who_is_missing = [&] {
      const std::vector<int> missing = missing_ranks(*client, request);
      return missing.empty() ? std::string()
                             : fmt::format("initialize waits for ranks {} of {} at {}", list(missing), plan.world_size, meeting.place());
    };
    std::optional<base::Reminder> reminder(std::in_place, waiting, who_is_missing, warn);
    Joined joined = join_as_server(*client, request, Deadline(plan.timeout));
    reminder.reset();
    plan.identity.serves_store = true;
    return settle(std::move(plan), std::move(joined), client, own_end(*client));
  }
  const Deadline deadline(plan.timeout + courtesy);
  JoinRequest request = join_request(plan);
  request.most_generations = 1;
  std::optional<base::Reminder> reminder(
      std::in_place, waiting, [&] { return "initialize waits for rank 0 at " + meeting.place(); }, warn);
  for (auto pause = std::chrono::milliseconds(first_retry);; pause = std::min<std::chrono::milliseconds>(pause * 2, longest_retry)) {
    std::shared_ptr<store::Client> client = meeting.connect(deadline);
    reminder.reset();  // rank 0 is there, and names missing ranks
    std::optional<JoinTimeout> bounded(std::in_place, *client, plan.timeout, JoinTimeout::Afterwards::at_most);
    if (auto joined = join(*client, request, deadline)) return settle(std::move(plan), std::move(*joined), client, own_end(*client));
    // This is the server of a job that is over and has not closed yet. The server of this job comes when that one has gone.
    bounded.reset();
    client.reset();
    if (deadline.passed()) throw Timeout("the address is still held by a job that is over", info());
    ::poll(nullptr, 0, deadline.poll_timeout(static_cast<int>(pause.count())));
  }
}

JobIdentity meet_in_file(Plan plan, const std::string& path) {
  const Deadline deadline(plan.timeout);
  auto presence = std::make_shared<Presence>(path, deadline);
  plan.place = "file " + path;
  const auto store = std::make_shared<FileStore>(path);
  const JoinTimeout bounded(*store, plan.timeout, JoinTimeout::Afterwards::at_most);
  JoinRequest request = join_request(plan);
  request.self.presence = presence->byte();
  request.is_alive = [&](const Record& record) { return presence->is_alive(record.presence); };
  Joined joined = *join(*store, request, deadline);
  return settle(std::move(plan), std::move(joined), store, {}, std::move(presence));
}

JobIdentity meet_in_etcd(Plan plan, const std::string& url) {
  const Deadline deadline(plan.timeout);
  const auto store = store::etcd::open_etcd(url, plan.environment, deadline);
  plan.place = "the store " + store->url();
  store->set_timeout(plan.timeout);  // also of later uses, which wait for an etcd that is gone
  JoinRequest request = join_request(plan);
  use_presence(request, store);
  Joined joined = *join(*store, request, deadline);
  return settle(std::move(plan), std::move(joined), store);
}

/// Returns the time left, at least 1 ms.
std::chrono::milliseconds left_of(const Deadline& deadline) { return std::max(deadline.left(), std::chrono::milliseconds(1)); }

JobIdentity meet_by_environment(Plan plan, EnvironmentIdentity given, const Environment& environment) {
  if (environment.has("UNISONO_LAUNCHER_FD")) {
    const Deadline deadline(plan.timeout);
    const auto launcher = plan.identity.launcher_store = launcher_store(environment, deadline);  // which is told how this host's ranks end
    plan.timeout = left_of(deadline);
    // A job in which hosts come and go may have all ranks on one host at the start.
    if (const auto job = store_of_launchers(*launcher, deadline)) return meet_among_hosts(std::move(plan), launcher, *job, deadline);
    const bool several_nodes = given.local_world_size && given.local_world_size->value < plan.world_size;
    if (!several_nodes) return meet_under_launcher(std::move(plan), launcher);
    given.job_id.clear();  // the launcher of each host has its own name for the job
  }
  const Deadline deadline(plan.timeout);
  const auto meeting = meeting_by_environment(given, *plan.rank, environment, deadline);
  plan.timeout = left_of(deadline);
  return meet_at(std::move(plan), meeting);
}

JobIdentity alone(const JobRequest& request) {
  JobIdentity identity;
  identity.local_rank = request.local_rank;
  identity.store = std::make_shared<MemoryStore>();
  identity.members = {own_record(0).member};
  return identity;
}

// Meets at a multicast address, where no process knows the others or the store's address: they determine both together first.
JobIdentity meet_by_multicast(Plan plan, const base::SocketAddress& address, const Environment& environment) {
  const Deadline deadline(plan.timeout);
  const MulticastDiscovery discovery({address, plan.group_name, plan.rank, plan.world_size}, environment, deadline);
  plan.rank = discovery.rank();
  plan.timeout = left_of(deadline);
  return meet_at(std::move(plan), discovery.meeting());
}

void warn_of_agent(const Url& url, const Environment& environment) {
  if (environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True") return;
  base::warn(fmt::format("torchrun's agent serves a store of its own at {}:{}, and the ranks meet at tcp://{} instead; env:// needs no address",
                         environment.get("MASTER_ADDR").value_or("?"), environment.get("MASTER_PORT").value_or("?"),
                         base::describe(url.host, url.port)));
}

/// Fills missing numbers from the launcher's variables, where these are about a job of the given size. A program may form a job of its own among some
/// of the launcher's processes.
void fill_from_environment(std::optional<Said>& rank, std::optional<Said>& world_size, const EnvironmentIdentity& given) {
  if (!world_size) world_size = said(given.world_size);
  const bool same_job = world_size && given.world_size && world_size->value == given.world_size->value;
  if (!rank && same_job) rank = said(given.rank);
}

JobIdentity meet_explicitly(const JobRequest& request, const Url& url, const Environment& environment) {
  auto rank = agree("rank", said(request.rank, "the argument rank"), said(url.rank, "init_method"));
  auto world_size = agree("world size", said(request.world_size, "the argument world_size"), said(url.world_size, "init_method"));
  std::optional<EnvironmentIdentity> given;
  if (!rank || !world_size) fill_from_environment(rank, world_size, given.emplace(identity_from_environment(environment)));
  const std::string_view scheme = url.scheme == Url::Scheme::tcp ? "tcp://" : url.scheme == Url::Scheme::etcd ? "etcd://" : "file://";
  if (!world_size) {
    throw InvalidArgument(fmt::format("world_size is not given, {} is not set, and {} needs it", given->world_size_variable, scheme), info());
  }
  const Deadline deadline(join_timeout(request.timeout, environment));
  std::optional<Address> address;
  if (url.scheme == Url::Scheme::tcp) address.emplace(url.host, url.port, deadline);
  const bool group = address && address->resolved.front().is_multicast();
  if (!rank && url.scheme == Url::Scheme::tcp && !group)
    throw InvalidArgument(fmt::format("rank is not given, {} says nothing of a job of {}, and tcp:// with one host's address needs it",
                                      given->rank_variable, world_size->value),
                          info());
  Plan plan = explicit_plan(request, value(rank), value(world_size), environment);
  plan.timeout = left_of(deadline);
  check_range(plan);
  if (url.scheme == Url::Scheme::file) return meet_in_file(std::move(plan), url.path);
  if (url.scheme == Url::Scheme::etcd) return meet_in_etcd(std::move(plan), url.path);
  warn_of_agent(url, environment);
  if (group && plan.world_size == 1) return alone(request);  // nobody else can come, so nothing is announced, and no secret needed
  if (group) return meet_by_multicast(std::move(plan), address->resolved.front(), environment);
  return meet_at(std::move(plan), meeting_at(*address, Reach::unknown, {}, environment));
}

/// Returns the name that the launcher gave the job of all its ranks; empty: this job is another one, or nameless.
std::string name_of_launcher(const Plan& plan, const Environment& environment) {
  if (plan.identity.launcher_store) return environment.get("UNISONO_JOB_ID").value_or("");
  const std::string run = environment.get("TORCHELASTIC_RUN_ID").value_or("");
  const bool is_whole = environment.get("RANK") == std::to_string(*plan.rank) && environment.get("WORLD_SIZE") == std::to_string(plan.world_size);
  return is_whole && run != unnamed_run ? run : "";
}

JobIdentity meet_in_given_store(const JobRequest& request, const Environment& environment) {
  if (!request.rank || !request.world_size) {
    throw InvalidArgument(
        fmt::format("{} is not given, and a job that meets in a given store needs rank and world_size", request.rank ? "world_size" : "rank"),
        info());
  }
  if (request.init_method != "env://")
    throw InvalidArgument(fmt::format("both a store and init_method \"{}\" are given; only one can be meant", request.init_method), info());
  Plan plan = explicit_plan(request, request.rank, request.world_size, environment);
  check_range(plan);
  plan.store_may_end = request.store_may_end;
  if (const auto launcher = store_of_own_launcher(environment, Deadline(plan.timeout))) {
    const JoinTimeout bounded(*launcher, plan.timeout);
    plan.identity.token = token_of_launcher(*launcher);
    if (plan.store_may_end && is_launched_as(environment, *plan.rank, plan.world_size)) plan.identity.launcher_store = launcher;
  }
  plan.identity.job_id = name_of_launcher(plan, environment);
  return meet_in_store(std::move(plan), request.store);
}

}  // namespace

JobIdentity meet(const JobRequest& request, const Environment& environment) {
  if (request.timeout.count() <= 0) throw InvalidArgument("the timeout must be positive", info());
  if (request.store) return meet_in_given_store(request, environment);
  const Url url = parse_url(request.init_method);
  if (url.scheme != Url::Scheme::env) return meet_explicitly(request, url, environment);

  if (!request.group_name.empty()) throw InvalidArgument("group_name is for tcp://, file:// and etcd://; the environment names one job only", info());
  EnvironmentIdentity given = identity_from_environment(environment);
  const auto asked_rank = agree("rank", said(request.rank, "the argument rank"), said(url.rank, "init_method"));
  const auto asked_size = agree("world size", said(request.world_size, "the argument world_size"), said(url.world_size, "init_method"));
  // The process has no launcher, or is in an allocation of Slurm without being a task of it.
  const bool launched = given.launcher != Launcher::none && given.launcher != Launcher::slurm;
  if (!launched && !asked_rank && !asked_size && !given.rank && !given.world_size && !environment.has("LOCAL_RANK")) return alone(request);

  Plan plan(environment);
  plan.rank = value(agree("rank", asked_rank, said(given.rank)));
  std::optional<BootstrapMeeting> carried;
  if (is_carried(given, environment)) {
    agree("world size", asked_size, said(given.world_size));  // before MPI is waited for
    carried = carried_meeting(given, environment, request.find_bootstrap);
    plan.rank = value(agree("rank", asked_rank, said(given.rank)));
  }
  const auto world_size = agree("world size", asked_size, said(given.world_size));
  std::string missing;
  if (!plan.rank) missing = given.rank_variable;
  if (!world_size) missing += (missing.empty() ? "" : " and ") + given.world_size_variable;
  if (!missing.empty())
    throw InvalidArgument(fmt::format("{} {} not set, and env:// needs it", missing, !plan.rank && !world_size ? "are" : "is"),
                          info("start the program with `unisono run`, or set it"));
  plan.world_size = world_size->value;
  plan.timeout = join_timeout(request.timeout, environment);
  JobIdentity& identity = plan.identity;
  identity.launcher = given.launcher;
  if (given.job_id != unnamed_run) identity.job_id = given.job_id;
  identity.local_rank = value(agree("local rank", said(request.local_rank, "the argument local_rank"), said(given.local_rank)));
  identity.local_world_size = value(said(given.local_world_size));
  identity.node_rank = value(said(given.node_rank));
  check_range(plan);
  if (carried) {
    identity.token = carried->token;
    return meet_at(std::move(plan), carried->meeting);
  }
  return meet_by_environment(std::move(plan), given, environment);
}

}  // namespace unisono::rendezvous
