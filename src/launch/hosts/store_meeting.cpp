#include "launch/hosts/store_meeting.h"

#include <optional>

#include <fmt/format.h>

#include "base/host.h"
#include "base/log.h"
#include "launch/process/host.h"
#include "rendezvous/join.h"
#include "rendezvous/own_address.h"
#include "rendezvous/plan.h"
#include "rendezvous/presence.h"
#include "rendezvous/reach.h"
#include "rendezvous/rendezvous.h"
#include "store/client.h"
#include "store/etcd.h"
#include "unisono/error.h"

namespace unisono::launcher {

using base::Deadline;

namespace {

constexpr auto leave_timeout = std::chrono::milliseconds(1000);

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

std::string waited_for(const JobOptions& options, const std::string& url, const OpenPlace& place) {
  const std::string why = place.why_unreachable();
  if (options.hosts.come_and_go())
    return "host 0 of the job that meets in " + url + (why.empty() ? "" : fmt::format(": the address that it has told does not reach it ({})", why));
  return fmt::format("{} hosts in all, which meet in {}", options.hosts.nnodes, url);
}

}  // namespace

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
      options.hosts.waiting, [&, url = store->url()] { return waited_for(options, url, place); },
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
    one_loopback = one_loopback && base::network_of(member.machine) == base::network_of(joined.members.front().machine);
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
