#include "launch/hosts/host_meeting.h"

#include <unistd.h>

#include <cerrno>
#include <numeric>
#include <sstream>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/log.h"
#include "launch/hosts/node_exchange.h"
#include "rendezvous/join.h"
#include "rendezvous/launcher_store.h"
#include "rendezvous/own_address.h"
#include "rendezvous/reach.h"
#include "rendezvous/rendezvous.h"
#include "store/authentication.h"
#include "store/client.h"
#include "unisono/error.h"

namespace unisono::launcher {

using base::Deadline;

namespace {

constexpr std::uint16_t default_port = 29500;
/// Node 0 gives up this much earlier, so that it can tell the others.
constexpr auto courtesy = std::chrono::milliseconds(250);
/// A launcher that has met the others connects with host 0 again within this time.
constexpr auto time_to_connect = std::chrono::seconds(5);

ErrorInfo error_info(std::string hint = {}) { return {.operation = "unisono run", .hint = std::move(hint)}; }

base::Secret secret_of(const JobOptions& options) {
  const auto said = options.hosts.token_file.empty() ? store::said_token(options.environment) : store::token_of_file(options.hosts.token_file);
  return said.value_or(base::Secret());
}

/// Each launcher that is not told its number takes itself for host 0.
[[noreturn]] void refuse_missing_number(const InvalidArgument& error) {
  throw InvalidArgument(fmt::format("--node-rank is missing, so this launcher is host 0; {}", error.message()),
                        error_info("the launcher of host 0 runs where --master-addr is, and the others get --node-rank 1, 2, …"));
}

/// Says now and then what is waited for. It writes to standard error directly, because the console does not exist before the launchers have met.
base::Reminder remind(const JobOptions& options, std::function<std::string()> what) {
  const auto say = [&options](const std::string& text) {
    if (options.shown.verbosity == Verbosity::silent || base::log_level() > base::LogLevel::warning) return;
    const std::string line = "[unisono] waiting for " + text + "\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  };
  return base::Reminder(options.hosts.waiting, std::move(what), say);
}

}  // namespace

HostMeeting::HostMeeting(const JobOptions& options)
    : most_hosts_(options.hosts.nnodes),
      least_hosts_(options.hosts.come_and_go() ? options.hosts.min_nnodes : options.hosts.nnodes),
      silence_(options.hosts.silence),
      secret_(secret_of(options)),
      encryption_(rendezvous::encryption_settings(options.environment)),
      terms_{.node = options.hosts.node_rank, .is_open = options.hosts.come_and_go()} {
  const auto timeout = rendezvous::join_timeout(rendezvous::default_timeout, options.environment);
  const Deadline deadline(terms_.node == 0 ? timeout : timeout + courtesy);
  const rendezvous::Address address(options.hosts.master_addr,
                                    options.hosts.master_port == 0 ? default_port : static_cast<std::uint16_t>(options.hosts.master_port), deadline);
  const std::string at = base::describe(address.name, address.port());
  const std::string place = "the launchers' store at " + at;
  rendezvous::check_reachable(address.name, address.resolved);
  base::Secret token;
  base::FileDescriptor listening;
  if (terms_.node == 0) {
    const auto addresses = rendezvous::addresses_to_listen_on(address.name, address.resolved, options.environment);
    token = store::token_for(addresses, secret_, {});
    try {
      listening = options.hosts.listening ? std::move(*options.hosts.listening) : store::listen_on(addresses);
    } catch (const InvalidArgument& error) {
      // Hosts without numbers are told apart by the address: it is that of host 0.
      if (!terms_.is_open && !options.hosts.node_rank_is_said) refuse_missing_number(error);
      if (!terms_.is_open || !options.hosts.any_node_rank) throw;
      terms_.node = 1;
    }
  }
  if (terms_.node == 0) {
    base::info(fmt::format("the job's store listens on {}", describe(base::local_address(listening.get()))));
    store_ = store::serve(std::move(listening), place, {.token = token, .tls = store::tls_for(token, options.environment), .silence = silence_});
    connect_ = [this, place](const Deadline&) { return store::connect_own(*store_->own_server(), place); };
  } else {
    const base::Reminder reminder = remind(options, [&] { return "host 0 at " + at; });
    token = store::token_for(address.resolved, secret_, {});
    connect_ = [this, place, resolved = address.resolved, token, tls = store::tls_for(token, options.environment)](const Deadline& limit) {
      return store::connect_tcp(resolved, place, {.token = token, .tls = tls, .silence = silence_}, limit);
    };
    store_ = connect_(deadline);
  }
  store_address_ = store_->addresses()->store;
  terms_.address = store_address_.host();
  compare_numbers(options, deadline);
  if (terms_.is_open) {
    join_open(options, deadline, at);
  } else {
    join_fixed(options, deadline, place, at);
  }
  store_->set_timeout(silence_);
}

// Launchers that say --nnodes N and MIN:MAX meet in different ways. One limit of silence holds for all.
void HostMeeting::compare_numbers(const JobOptions& options, const Deadline& deadline) {
  const std::string numbers = terms_.is_open ? fmt::format("{}:{}", least_hosts_, most_hosts_) : std::to_string(most_hosts_);
  const std::string own = fmt::format("--nnodes {} and unisono {}", numbers, store::describe_own_version());
  constexpr const char* silence_key = "launchers/silence";
  if (terms_.node == 0) {
    store_->set(silence_key, std::to_string(silence_.count()));
    return store_->set("launchers/numbers", own);
  }
  const std::string theirs = store_->get("launchers/numbers", deadline.left());
  const bool is_open_there = theirs.find(':') < theirs.find(" and ");
  if ((terms_.is_open || is_open_there) && theirs != own) {
    throw InvalidArgument(fmt::format("host 0 at {} has {}, and this launcher {}", options.hosts.master_addr, theirs, own), error_info());
  }
  if (const auto silence = store_->try_get(silence_key)) silence_ = std::chrono::milliseconds(std::stoll(*silence));
}

// The port after the store's is tried first, because firewalls are likely to let it through as well.
void HostMeeting::reserve_port() { port_ = PortReservation::near(store_address_, store_address_.port() + 1); }

void HostMeeting::join_open(const JobOptions& options, const Deadline& deadline, const std::string& at) {
  const HostOffer own{.ranks = options.ranks, .least = options.min_ranks, .where = rendezvous::where(rendezvous::own_record({}).member)};
  if (terms_.node == 0) {
    reserve_port();
    terms_.max_restarts = options.max_restarts;
    terms_.master_port = port_->port();
    terms_.least_ranks = least_hosts_ * (options.min_ranks > 0 ? options.min_ranks : options.ranks);
    terms_.job_name = fmt::format("{:016x}", base::stable_hash(store_address_.host_for_others() + " " + own.where));
    admission_ = std::make_unique<Admission>(
        Admission::Parts{.store = store_, .least_hosts = least_hosts_, .most_hosts = most_hosts_, .own = own, .terms = terms_}, roster_);
    const std::string only_here = store_address_.is_loopback() ? "; it is a loopback address, which no other machine reaches" : "";
    const base::Reminder reminder = remind(options, [&] {
      return fmt::format("hosts at {}: {} of {} have come, and {} are enough{}", at, admission_->present(), most_hosts_, least_hosts_, only_here);
    });
    admission_->gather(deadline, options.hosts.last_call);
    terms_.world_size = admission_->world_size();
    return;
  }
  const int number = take_ticket(*store_);
  const base::Reminder reminder = remind(options, [&] { return "host 0 at " + at + " to take this host in"; });
  JobTerms welcome = ask_for_place(*store_, number, own, deadline);
  welcome.node = number;
  welcome.address = terms_.address;
  terms_ = std::move(welcome);
  roster_.set(decode_roster(store_->get(hosts_key, deadline.left())));
}

void HostMeeting::join_fixed(const JobOptions& options, const Deadline& deadline, const std::string& place, const std::string& at) {
  rendezvous::JoinRequest request{.self = rendezvous::own_record(terms_.node), .world_size = most_hosts_, .group_name = "launchers"};
  request.most_generations = 1;
  request.who = "node";
  request.size = "number of hosts";
  request.size_option = "--nnodes";
  const auto joined = [&] {
    const base::Reminder reminder = remind(options, [&] {
      const std::vector<int> missing = rendezvous::missing_ranks(*store_, request);
      if (missing.empty()) return std::string();
      return fmt::format("host{} {} of {} at {}", missing.size() == 1 ? "" : "s", rendezvous::list(missing), most_hosts_, at);
    });
    return rendezvous::join(*store_, request, deadline);
  }();
  if (!joined) throw InvalidArgument(fmt::format("the job at {} is over", place), error_info("start the launchers of all hosts together"));
  std::string all = store_address_.host_for_others();
  for (const auto& member : joined->members) {
    roster_.add({.number = member.rank, .where = rendezvous::where(member)});
    all.append(" ").append(rendezvous::where(member));
  }
  terms_.job_name = fmt::format("{:016x}", base::stable_hash(all));
  agree(options, deadline);
}

std::vector<int> HostMeeting::numbers() const {
  std::vector<int> all(static_cast<std::size_t>(most_hosts_));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Agrees on the number of ranks of each node, and on what node 0 alone decides: its text says that as well.
void HostMeeting::agree(const JobOptions& options, const Deadline& deadline) {
  std::string own = write_fields(std::tie(options.ranks, options.min_ranks));
  if (terms_.node == 0) {
    reserve_port();
    own += fmt::format(" {} {}", port_->port(), options.max_restarts);
  }
  const auto all = *gather_texts(*store_, {"launchers/ranks", numbers()}, terms_.node, own, deadline, [] { return true; });
  bool is_elastic = false;
  std::vector<JobHost> hosts = roster_.all();
  for (std::size_t node = 0; node < all.size(); ++node) {
    std::istringstream text(all[node]);
    JobHost& host = hosts[node];
    int least = 0;
    const bool is_read =
        read_fields(text, std::tie(host.ranks, least)) && (node > 0 || read_fields(text, std::tie(terms_.master_port, terms_.max_restarts)));
    if (!is_read) throw ProtocolError("a launcher sent a malformed number of ranks");
    is_elastic = is_elastic || least > 0;
    terms_.least_ranks += least > 0 ? least : host.ranks;
    host.first_rank = terms_.world_size;
    terms_.world_size += host.ranks;
  }
  if (!is_elastic) terms_.least_ranks = 0;
  terms_.first_rank = hosts[static_cast<std::size_t>(terms_.node)].first_rank;
  roster_.set(std::move(hosts));
  if (terms_.world_size > most_ranks)
    throw InvalidArgument(fmt::format("a job has at most {} ranks, and there are {}", most_ranks, terms_.world_size));
}

// The ranks of this host share a connection of their own, so that what they send never delays the launchers' heartbeats.
void HostMeeting::relay(store::StoreServer& launchers) const {
  try {
    rendezvous::relay_to_store(launchers,
                               {.client = connect_(Deadline(time_to_connect)), .own = store_->addresses()->own, .encryption = encryption_});
  } catch (const Error& error) {  // each rank then tries by itself, and says why it cannot
    base::log(base::LogLevel::debug, error.what());
  }
}

void HostMeeting::tell_ranks(store::StoreServer& launchers, int attempt) const {
  rendezvous::tell_of_silence(launchers, silence_);
  relay(launchers);
  rendezvous::tell_of_store(launchers, store_address_, secret_, "", fmt::format("attempt/{}", attempt));
}

}  // namespace unisono::launcher
