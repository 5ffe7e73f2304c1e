#include "launch/hosts/store_meeting.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <sstream>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "base/socket.h"
#include "launch/hosts/host_texts.h"
#include "launch/process/host.h"
#include "rendezvous/join.h"
#include "rendezvous/own_address.h"
#include "rendezvous/plan.h"
#include "rendezvous/presence.h"
#include "rendezvous/reach.h"
#include "rendezvous/record.h"
#include "rendezvous/rendezvous.h"
#include "store/client.h"
#include "store/etcd.h"
#include "store/requests.h"
#include "unisono/error.h"

namespace unisono::launcher {

using base::Deadline;
using rendezvous::left_mark;
using rendezvous::Record;
using rendezvous::where;
using std::chrono::milliseconds;

namespace {

/// The pause between two looks whether host 0, from which a word is awaited, still lives.
constexpr milliseconds presence_check_period{500};
/// So long a connection to host 0 may take, and the pause before the next one: no system tells of a new listener.
constexpr milliseconds connect_time{2000}, pause_of_connects{100};
constexpr milliseconds leave_timeout{1000};
constexpr int looks = 3;  ///< within the time after which a launcher counts as dead
constexpr const char* operation = "unisono run";
constexpr const char* fixed_key = "unisono/hosts/fixed";

std::string zero_key(int number) { return fmt::format("unisono/hosts/{}/zero", number); }
std::string address_key(int number) { return fmt::format("unisono/hosts/{}/address", number); }

/// "HOST PORT", as host 0 tells its address.
struct ToldAddress {
  std::string host;
  int port = 0;
};

/// Throws ProtocolError if the text is no address.
ToldAddress decode_address(const std::string& text) {
  std::istringstream fields(text);
  ToldAddress told;
  if (!read_fields(fields, std::tie(told.host, told.port)) || told.port < 1 || told.port > highest_port || !base::is_numeric(told.host))
    throw ProtocolError("the launcher of host 0 sent a malformed address", {.operation = operation});
  return told;
}

/// Returns why nobody answers at the address; empty where somebody does.
std::string why_no_answer(const ToldAddress& told, const Deadline& deadline) {
  const auto address = base::resolve(told.host, static_cast<std::uint16_t>(told.port)).front();
  const auto opened = base::try_connect(address, Deadline(std::min(deadline.left(), connect_time)));
  return opened.fd ? "" : fmt::format("{}: {}", base::describe(address), base::error_text(opened.error));
}

/// Tells whether the address is loopback of another host: here it leads to this one, where something else may listen.
bool is_loopback_elsewhere(const Record& zero, const ToldAddress& told) {
  const bool is_elsewhere = base::network_of(zero.member.machine.get()) != base::network_of(base::machine_id());
  return is_elsewhere && base::resolve(told.host, 0).front().is_loopback();
}

/// Listens at the address of this host by which the others reach it, and tells them.
void offer_address(JobOptions& options, Store& store, const std::string& key, bool one_network) {
  const std::string host = rendezvous::own_address(options.environment, std::nullopt, one_network);
  base::FileDescriptor listening = store::listen_on(base::resolve(host, static_cast<std::uint16_t>(options.hosts.master_port)));
  options.hosts.master_addr = host;
  options.hosts.master_port = base::local_address(listening.get()).port();
  store.set(key, fmt::format("{} {}", host, options.hosts.master_port));
  options.hosts.listening = std::make_shared<base::FileDescriptor>(std::move(listening));
}

void take_address(JobOptions& options, const std::string& said) {
  const ToldAddress told = decode_address(said);
  options.hosts.master_addr = told.host;
  options.hosts.master_port = told.port;
}

std::string waited_for(const JobOptions& options, const std::string& url, const std::string& why) {
  if (options.hosts.come_and_go())
    return "host 0 of the job that meets in " + url + (why.empty() ? "" : fmt::format(": the address that it has told does not reach it ({})", why));
  return fmt::format("{} hosts in all, which meet in {}", options.hosts.nnodes, url);
}

}  // namespace

// How the launchers of a job of MIN to MAX hosts find host 0 in etcd. The jobs that follow each other at the same place have numbers.
//
//   unisono/hosts/N/zero      the launcher that has claimed to be host 0 of job N; "left" once that job is over
//   unisono/hosts/N/address   where it serves the launchers' store
//   unisono/hosts/fixed       a launcher of a job with a fixed number of hosts, which meet there in another way (rendezvous/join.h)
//
// A claim holds while the presence of its launcher in etcd does: until that one leaves, or the URL's ttl seconds after its last sign of life. The
// first one that finds it without a presence closes that job's number for good, so that all who come later agree about it.
class StoreMeeting::OpenPlace {
 public:
  /// Uses the record and the `is_alive` of the request.
  OpenPlace(std::shared_ptr<store::etcd::KeysInEtcd> store, const rendezvous::JoinRequest& request)
      : store_(std::move(store)), own_(rendezvous::encode(request.self)), who_(where(request.self.member)), is_alive_(request.is_alive) {}

  enum class Claim {
    never,      ///< this launcher was given another number
    if_free,    ///< if no other one is host 0
    only_this,  ///< it was given number 0: another one is an error
  };
  struct HostZero {
    bool is_own = false;       ///< this launcher has claimed it, and tells its address
    std::string seat = {};     ///< is_own: set to `left` when the job is over
    std::string claim = {};    ///< is_own: what stands there until then
    std::string address = {};  ///< is_own: the key of the address; else the address, at which somebody listens
  };

  /// Finds host 0, or becomes it. Throws InvalidArgument if the place or its host 0 is another launcher's, Timeout if no host 0 comes, tells its
  /// address and can be reached in time.
  HostZero find(Claim claim, const Deadline& deadline) {
    const std::string& url = store_->url();
    std::string missing;
    for (;;) {
      const auto [number, zero] = latest();
      if (!zero && claim != Claim::never) {
        if (store_->compare_set(zero_key(number), "", own_) != own_) continue;
        refuse_beside_fixed(zero_key(number));
        return {.is_own = true, .seat = zero_key(number), .claim = own_, .address = address_key(number)};
      }
      if (zero && claim == Claim::only_this) {
        throw InvalidArgument(
            fmt::format("host 0 of the job at {} is {}, which still runs; this launcher, {}, is the second one", url, where(zero->member), who_),
            {.operation = operation, .hint = "only one launcher is told --node-rank 0; without a number each finds its own"});
      }
      if (deadline.passed()) throw Timeout(fmt::format("{} within {} ms", missing, deadline.timeout().count()), {.operation = operation}, {});
      if (!zero) {
        note_unreachable("");
        missing = fmt::format("no launcher has come to {} that may be host 0,", url);
        await(zero_key(number), deadline);
        continue;
      }
      const std::string name = fmt::format("host 0 of the job at {}, {},", url, where(zero->member));
      missing = name + " has not told its address";
      const auto told = await(address_key(number), deadline);
      if (!told) continue;
      const ToldAddress address = decode_address(*told);
      const std::string why =
          is_loopback_elsewhere(*zero, address)
              ? fmt::format("{}:{}: it is loopback of that host, where UNISONO_INTERFACE chooses another", address.host, address.port)
              : why_no_answer(address, deadline);
      note_unreachable(why);
      if (why.empty()) return {.address = *told};
      missing = fmt::format("{} has told an address at which it cannot be reached ({})", name, why);
      ::poll(nullptr, 0, static_cast<int>(std::min(deadline.left(), pause_of_connects).count()));
    }
  }

  /// Returns why `find` cannot reach the host 0 that is there: "127.0.0.1:4000: Connection refused"; empty: it has found none. Any thread may call
  /// it.
  std::string why_unreachable() const {
    const std::lock_guard lock(mutex_);
    return unreachable_;
  }

  /// Says that a job with a fixed number of hosts is here. Throws InvalidArgument if one of MIN to MAX hosts is.
  void take_for_fixed() {
    std::string said = store_->compare_set(fixed_key, "", own_);
    while (said != own_ && !living(said)) said = store_->compare_set(fixed_key, said, own_);
    const auto [number, zero] = latest();
    if (!zero) return;
    if (said == own_) store_->compare_set(fixed_key, own_, left_mark);
    throw InvalidArgument(
        fmt::format("the job at {} still runs, with --nnodes MIN:MAX and {} as host 0: {}, with a fixed number of hosts, cannot come in",
                    store_->url(), where(zero->member), who_),
        {.operation = operation, .hint = "--nnodes is the same on all hosts"});
  }

 private:
  struct Latest {
    int number = 1;
    std::optional<Record> zero = {};  ///< empty: free
  };

  /// Returns the job that is here, or the number that is free. Closes those whose host 0 is gone.
  Latest latest() {
    for (int number = 1;; ++number) {
      const auto said = store_->try_get(zero_key(number));
      if (!said) return {number};
      if (*said == left_mark) continue;
      if (auto zero = living(*said)) return {number, std::move(zero)};
      store_->compare_set(zero_key(number), *said, left_mark);
    }
  }

  /// Returns the launcher of an entry, while it lives.
  std::optional<Record> living(const std::string& said) const {
    if (said.empty() || said == left_mark) return std::nullopt;
    Record record = rendezvous::decode(said);
    if (said != own_ && !is_alive_(record)) return std::nullopt;
    return record;
  }

  /// Waits for a value, and a moment at most, since who is to write it may have died.
  std::optional<std::string> await(const std::string& key, const Deadline& deadline) {
    try {
      return store_->get(key, std::min(deadline.left(), presence_check_period));
    } catch (const Timeout&) {
      if (deadline.passed() && store_->is_lost()) throw;  // it names etcd's endpoints
      return std::nullopt;
    }
  }

  /// A job of the other kind may come at the same time: each enters itself, and then looks for the other.
  void refuse_beside_fixed(const std::string& seat) {
    const auto fixed = living(store_->try_get(fixed_key).value_or(""));
    if (!fixed) return;
    store_->set(seat, left_mark);
    throw InvalidArgument(fmt::format("the job at {} still runs ({}), and has a fixed number of hosts: {}, with --nnodes MIN:MAX, cannot come in",
                                      store_->url(), where(fixed->member), who_),
                          {.operation = operation});
  }

  void note_unreachable(const std::string& why) {
    const std::lock_guard lock(mutex_);
    unreachable_ = why;
  }

  const std::shared_ptr<store::etcd::KeysInEtcd> store_;
  const std::string own_, who_;
  const std::function<bool(const Record&)> is_alive_;
  mutable std::mutex mutex_;  // guards the next one
  std::string unreachable_;
};

SeatWatch::SeatWatch(std::shared_ptr<store::etcd::KeysInEtcd> store, std::function<std::optional<std::string>()> look,
                     std::function<void(const std::string&)> tell)
    : store_(std::move(store)), look_(std::move(look)), tell_(std::move(tell)), thread_("the watch over the place in etcd", [this] { watch(); }) {}

SeatWatch::~SeatWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void SeatWatch::watch() {
  const auto period = std::chrono::milliseconds(store_->time_to_live()) / looks;
  for (std::unique_lock lock(mutex_); !stopping_.wait_for(lock, period, [&] { return stop_; }); lock.lock()) {
    lock.unlock();
    try {
      const store::RequestLimit limit(period);
      if (const auto why = look_()) tell_(*why);
    } catch (const std::exception& error) {  // etcd does not answer; nobody else can take the place there, either
      base::debug(error.what());
    }
  }
}

StoreMeeting::StoreMeeting(JobOptions& options) {
  const Deadline deadline(rendezvous::join_timeout(rendezvous::default_timeout, options.environment));
  const bool is_open = options.hosts.come_and_go();
  const std::optional<int> number = is_open || options.hosts.any_node_rank ? std::nullopt : std::optional(options.hosts.node_rank);
  const auto store = store::etcd::open_etcd(options.hosts.store, options.environment, deadline);
  store_ = store;
  const rendezvous::JoinTimeout bounded(*store, deadline.timeout());
  rendezvous::JoinRequest request{.self = rendezvous::own_record(number), .world_size = options.hosts.nnodes, .group_name = "hosts"};
  request.who = "node";
  request.size = "number of hosts";
  request.size_option = "--nnodes";
  rendezvous::use_presence(request, store);
  OpenPlace place(store, request);
  const base::Reminder reminder(
      options.hosts.waiting, [&, url = store->url()] { return waited_for(options, url, place.why_unreachable()); },
      [&](const std::string& text) {
        if (options.shown.verbosity == Verbosity::normal) base::warn("waiting for " + text);
      });
  if (is_open) {
    meet_open(options, place, deadline);
  } else {
    place.take_for_fixed();
    meet_fixed(options, request, deadline);
  }
}

void StoreMeeting::meet_fixed(JobOptions& options, const rendezvous::JoinRequest& request, const Deadline& deadline) {
  const auto joined = *rendezvous::join(*store_, request, deadline);
  seat_ = joined.seat;
  // Each launcher looks: the next job begins where all of them count as dead, and any of them may be the first to wake.
  look_at_seat_ = [this, next = joined.next] { return store_->try_get(next) ? std::optional(displaced()) : std::nullopt; };
  options.hosts.node_rank = joined.rank;
  const std::string key = joined.prefix + "address";
  bool one_network = true, one_loopback = true;
  for (const auto& member : joined.members) {
    one_network = one_network && member.machine == joined.members.front().machine;
    one_loopback = one_loopback && base::network_of(member.machine.get()) == base::network_of(joined.members.front().machine.get());
  }
  // All of them look, because nobody else would tell them that host 0 has ended.
  if (!one_loopback) rendezvous::check_for_other_hosts(rendezvous::own_address(options.environment, std::nullopt, false), options.environment);
  if (joined.rank > 0) {
    take_address(options, store_->get(key, deadline.left()));
    return;
  }
  offer_address(options, *store_, key, one_network);
}

void StoreMeeting::meet_open(JobOptions& options, OpenPlace& place, const Deadline& deadline) {
  using Claim = OpenPlace::Claim;
  const Claim claim = options.hosts.node_rank > 0 ? Claim::never : options.hosts.any_node_rank ? Claim::if_free : Claim::only_this;
  const OpenPlace::HostZero zero = place.find(claim, deadline);
  options.hosts.any_node_rank = false;
  options.hosts.node_rank = zero.is_own ? 0 : 1;  // the others get their numbers from host 0
  if (!zero.is_own) return take_address(options, zero.address);
  seat_ = zero.seat;
  offer_address(options, *store_, zero.address, false);  // hosts that come later may be anywhere
  look_at_seat_ = [this, own = zero.claim] { return store_->compare_set(seat_, "", own) == own ? std::nullopt : std::optional(displaced()); };
}

std::string StoreMeeting::displaced() const {
  return fmt::format("another job has taken the place of this one at {}, because nothing was heard of its launcher for {} s (?ttl= of the URL)",
                     store_->url(), store_->time_to_live().count());
}

std::unique_ptr<SeatWatch> StoreMeeting::watch(std::function<void(const std::string&)> tell) {
  return look_at_seat_ ? std::make_unique<SeatWatch>(store_, look_at_seat_, std::move(tell)) : nullptr;
}

StoreMeeting::~StoreMeeting() {
  if (seat_.empty()) return;
  try {
    const rendezvous::JoinTimeout brief(*store_, leave_timeout);
    store_->set(seat_, rendezvous::left_mark);
  } catch (const std::exception& error) {  // etcd is gone, and the job is over
    base::debug(error.what());
  }
}

}  // namespace unisono::launcher
