#include "transport/tcp/meeting.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error_text.h"
#include "base/socket.h"
#include "base/switches.h"
#include "base/tls.h"
#include "store/authentication.h"
#include "store/table.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/rank_addresses.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

using base::Clock;
using base::Deadline;
using base::SocketAddress;
using Time = Clock::time_point;
using namespace std::chrono_literals;

constexpr auto dialler_look_period = 100ms;
constexpr const char* secret_key = "link/secret";
constexpr const char* encryption_key = "link/encryption";  ///< how rank 0 does it
constexpr const char* hint =
    "every rank must reach every other one, at any port; UNISONO_INTERFACE names the interface, and `unisono doctor --hosts A,B` shows what a "
    "firewall drops";

std::string address_key(int rank) { return fmt::format("link/address/{}", rank); }

bool are_connected(const Link::Options& options, int a, int b) {
  return a != b && (options.all || options.hosts[static_cast<std::size_t>(a)] != options.hosts[static_cast<std::size_t>(b)]);
}

// Returns true where a lower rank connects to this one: the lower rank of each pair connects.
bool listens(const Link::Options& options, int rank) {
  for (int lower = 0; lower < rank; ++lower) {
    if (are_connected(options, lower, rank)) return true;
  }
  return false;
}

/// Returns how a rank's connections are encrypted: two sides with different answers do not understand each other.
std::string encryption_of(const base::TlsOptions& options) {
  return !options.wanted() ? "off" : options.has_certificate() ? "with certificates" : "with the job's secret";
}

class Meeting {
 public:
  Meeting(const Link::Options& options, const WatchTree* tree) : options_(options), tree_(tree), deadline_(options.timeout) {
    caller_.rank = options.rank;
    caller_.address = options.address;
    if (tree != nullptr) {
      awaited_.assign(tree->children(options.rank).begin(), tree->children(options.rank).end());
      if (const int parent = tree->parent(options.rank); parent >= 0) sought_.push_back(parent);
      return;
    }
    for (const int rank : peers_of(options)) (rank < options.rank ? awaited_ : sought_).push_back(rank);
  }

  MeetingResult run() {
    if (!awaited_.empty() || tree_ != nullptr) listen();
    learn();
    while (established_.size() < awaited_.size() + sought_.size()) {
      if (deadline_.passed()) give_up();
      step();
    }
    if (tree_ == nullptr) acceptor_.reset();
    return {std::move(established_), std::move(caller_), std::move(acceptor_)};
  }

 private:
  void listen();
  void learn();
  void await(const std::map<std::string, int>& needed) const;
  void learn_encryption();
  void step();
  std::map<std::string, int> needed() const;
  [[noreturn]] void unreachable(const Dialer& dialer) const;
  [[noreturn]] void give_up() const;

  const Link::Options& options_;
  const WatchTree* const tree_;
  const Deadline deadline_;
  std::vector<int> awaited_, sought_;
  std::optional<Acceptor> acceptor_;
  Caller caller_;
  std::list<Dialer> dialers_;
  std::map<int, Established> established_;
  Time next_look_ = Clock::now() + dialler_look_period;
};

void Meeting::listen() {
  acceptor_.emplace(options_.rank, options_.address, awaited_);
  if (awaited_.empty()) return;  // nobody asks the store for it
  options_.store->set(address_key(options_.rank), address_text(options_, *acceptor_));
}

// Returns the keys that are waited for, with the ranks that set them: the addresses of all ranks that listen, though a rank does not connect with
// each of them, so that attempts succeed at once as a rule. In a tree it is the parent's alone.
std::map<std::string, int> Meeting::needed() const {
  std::map<std::string, int> keys{{secret_key, 0}};
  if (tree_ != nullptr) {
    for (const int rank : sought_) keys.emplace(address_key(rank), rank);
    return keys;
  }
  for (int rank = 1; rank < static_cast<int>(options_.hosts.size()); ++rank) {
    if (listens(options_, rank)) keys.emplace(address_key(rank), rank);
  }
  return keys;
}

// In a tree the few values are waited for one by one, as they are read.
void Meeting::await(const std::map<std::string, int>& needed) const {
  if (tree_ != nullptr) return;
  std::vector<std::string> keys;
  for (const auto& [key, rank] : needed) keys.push_back(key);
  options_.store->wait(keys, deadline_.left());
}

void Meeting::learn() {
  if (options_.rank == 0) {
    options_.store->set(encryption_key, encryption_of(options_.tls));
    options_.store->set(secret_key, store::fresh_nonce());
  }
  const std::map<std::string, int> needed = this->needed();
  std::map<int, std::string> addresses;  // of those that are sought
  base::Secret& secret = caller_.secret;
  try {
    await(needed);
    secret = base::Secret::taking(options_.store->get(secret_key, deadline_.left()));
    for (const int rank : sought_) addresses[rank] = options_.store->get(address_key(rank), deadline_.left());
  } catch (const Timeout&) {
    std::set<int> absent;
    for (const auto& [key, rank] : needed) {
      if (!options_.store->try_get(key)) absent.insert(rank);
    }
    throw Timeout(fmt::format("rank {} was ready to connect, but within {} ms rank {} did not come so far", options_.rank, options_.timeout.count(),
                              fmt::join(absent, ", ")),
                  {}, {absent.begin(), absent.end()});
  }
  if (secret.size() != secret_size) throw ProtocolError("the store holds a link's secret of the wrong length");
  // The job's own secret makes the link's secret unknown to a process that only overheard the store's traffic.
  if (!options_.token.empty()) secret = store::message_key(options_.token.view(), "unisono link: secret", secret.view());
  learn_encryption();
  if (acceptor_) acceptor_->open(secret, caller_.tls);
  for (const auto& [rank, address] : addresses) {
    const std::string source = fmt::format("entry {} in the store", address_key(rank));
    dialers_.emplace_back(rank, parse_address(address, options_.address, source));
  }
}

void Meeting::learn_encryption() {
  const std::string of_rank_0 = options_.store->get(encryption_key, deadline_.left());
  const std::string own = encryption_of(options_.tls);
  if (own != of_rank_0) {
    throw ProtocolError(
        fmt::format("the encryption between the ranks is {} on rank {} and {} on rank 0", own, options_.rank, store::printable(of_rank_0)),
        {.hint = "UNISONO_TLS and UNISONO_TLS_CERT must be set on all ranks or on none"});
  }
  if (!options_.tls.wanted()) return;
  caller_.tls = base::make_tls_context(options_.tls, store::derived_key(caller_.secret.view(), "unisono link: TLS 1.3 pre-shared key"));
}

void Meeting::step() {
  Time now = Clock::now();
  for (Dialer& dialer : dialers_) dialer.begin(caller_, now);
  std::vector<pollfd> entries;
  Time next = now + dialler_look_period;
  if (acceptor_) acceptor_->prepare(entries, now, next);
  const std::size_t before_acceptor = entries.size();
  for (const Dialer& dialer : dialers_) dialer.prepare(entries, next);
  base::check_interruption();
  const auto wait = std::clamp<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count(), 0, longest_poll_ms);
  if (::poll(entries.data(), entries.size(), deadline_.poll_timeout(static_cast<int>(wait))) < 0 && errno != EINTR)
    throw Error(fmt::format("poll: {}", base::error_text(errno)));
  now = Clock::now();
  const std::span<const pollfd> served(entries);
  if (acceptor_)
    acceptor_->serve(served.first(before_acceptor), [&](int rank, Established connection) { established_[rank] = std::move(connection); });
  std::size_t i = before_acceptor;
  for (Dialer& dialer : dialers_) {
    if (dialer.serve(caller_, served[i++].revents, now)) established_[dialer.rank()] = dialer.take();
    else if (dialer.is_refused(now)) unreachable(dialer);
  }
  std::erase_if(dialers_, [&](const Dialer& dialer) { return established_.contains(dialer.rank()); });
  if (now < next_look_) return;
  next_look_ = now + dialler_look_period;
  static_cast<void>(options_.store->try_get(secret_key));  // a watched store throws here if one of the ranks will not come
}

void Meeting::unreachable(const Dialer& dialer) const {
  throw BackendUnavailable(fmt::format("rank {} at {} cannot be reached from rank {} at {}: {}", dialer.rank(), base::describe(dialer.address()),
                                       options_.rank, with_interface(options_.address), dialer.reason()),
                           {.culprit = dialer.rank(), .hint = hint});
}

void Meeting::give_up() const {
  std::vector<int> missing;
  for (const int rank : awaited_) {
    if (!established_.contains(rank)) missing.push_back(rank);
  }
  std::string why;
  for (const Dialer& dialer : dialers_) {
    if (!dialer.has_reached()) unreachable(dialer);
    missing.push_back(dialer.rank());
    why += fmt::format("; rank {} at {}: {}", dialer.rank(), base::describe(dialer.address()), dialer.reason());
  }
  std::sort(missing.begin(), missing.end());
  throw Timeout(fmt::format("rank {} at {} could not connect with rank {} within {} ms{}", options_.rank, with_interface(options_.address),
                            fmt::join(missing, ", "), options_.timeout.count(), why),
                {.hint = hint}, missing);
}

}  // namespace

std::string address_text(const Link::Options& options, const Acceptor& acceptor) {
  return fmt::format("{} {}", base::resolve(options.address, 0).front().host_for_others(), acceptor.port());
}

SocketAddress parse_address(const std::string& text, const std::string& own, std::string_view source) {
  const auto [host, port] = split_address(text, source);
  return base::resolve(std::string(host), port).front().as_seen_from(base::resolve(own, 0).front());
}

std::vector<int> peers_of(const Link::Options& options) {
  std::vector<int> peers;
  for (int rank = 0; rank < static_cast<int>(options.hosts.size()); ++rank) {
    if (are_connected(options, options.rank, rank)) peers.push_back(rank);
  }
  return peers;
}

bool is_peer(const Link::Options& options, int rank) {
  return rank >= 0 && static_cast<std::size_t>(rank) < options.hosts.size() && are_connected(options, options.rank, rank);
}

bool connects_on_demand(const Link::Options& options) {
  std::map<int, std::size_t> ranks_on;
  for (const int host : options.hosts) ++ranks_on[host];
  const auto fewest = std::ranges::min_element(ranks_on, {}, [](const auto& host) { return host.second; });
  if (fewest == ranks_on.end()) return false;
  const std::size_t most_peers = options.all ? options.hosts.size() - 1 : options.hosts.size() - fewest->second;
  return most_peers > options.most_eager;
}

MeetingResult meet(const Link::Options& options, const WatchTree* tree) {
  if (peers_of(options).empty()) return {};
  return Meeting(options, tree).run();
}

std::size_t most_eager_connections(const base::Environment& environment) {
  constexpr const char* name = "UNISONO_MAX_EAGER_CONNECTIONS";
  const auto number = environment.get_int(name);
  if (!number) return Link::Options().most_eager;
  if (*number < 0) throw InvalidArgument(fmt::format("environment variable {} is negative: {}", name, *number));
  return static_cast<std::size_t>(*number);
}

}  // namespace unisono::transport
