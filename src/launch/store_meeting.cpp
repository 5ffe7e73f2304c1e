#include "launch/store_meeting.h"

#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "base/log.h"
#include "launch/host.h"
#include "rendezvous/departure.h"
#include "rendezvous/etcd_presence.h"
#include "rendezvous/join.h"
#include "rendezvous/own_address.h"
#include "rendezvous/reach.h"
#include "rendezvous/rendezvous.h"
#include "store/etcd_store.h"
#include "store/serve.h"
#include "unisono/error.h"

namespace unisono::launcher {

using base::Deadline;

namespace {

constexpr auto leave_timeout = std::chrono::milliseconds(1000);

/// Listens at the address of this host by which the others reach it, and tells them.
void offer_address(JobOptions& options, Store& store, const std::string& key, bool one_network) {
  const std::string host = rendezvous::own_address(options.environment, std::nullopt, one_network);
  base::FileDescriptor listening = store::listen_on(base::resolve(host, static_cast<std::uint16_t>(options.master_port)));
  options.master_addr = host;
  options.master_port = base::local_address(listening.get()).port();
  store.set(key, fmt::format("{} {}", host, options.master_port));
  options.listening = std::make_shared<base::FileDescriptor>(std::move(listening));
}

void take_address(JobOptions& options, const std::string& said) {
  std::istringstream text(said);
  text >> options.master_addr >> options.master_port;
  if (text.fail() || options.master_port < 1 || options.master_port > highest_port)
    throw ProtocolError("the launcher of host 0 told its address in no way of ours", {.operation = "unisono run"});
}

}  // namespace

StoreMeeting::StoreMeeting(JobOptions& options) {
  const Deadline deadline(rendezvous::join_timeout(rendezvous::default_timeout, options.environment));
  const std::optional<int> number = options.any_node_rank ? std::nullopt : std::optional(options.node_rank);
  const auto store = store::etcd::open_etcd(options.store, options.environment, deadline);
  store_ = store;
  const rendezvous::JoinTimeout bounded(*store, deadline.timeout());
  rendezvous::JoinRequest request{.self = rendezvous::own_record(number), .world_size = options.nnodes, .group_name = "hosts"};
  request.who = "node";
  request.size = "number of hosts";
  request.size_option = "--nnodes";
  rendezvous::use_presence(request, store);
  const base::Reminder reminder(
      options.waiting, [&] { return fmt::format("{} hosts in all, which meet in {}", options.nnodes, store->location().url); },
      [&](const std::string& text) {
        if (options.verbosity == Verbosity::normal) base::warn("waiting for " + text);
      });
  const auto joined = *rendezvous::join(*store, request, deadline);
  seat_ = joined.seat;
  options.node_rank = joined.rank;
  const std::string key = joined.prefix + "address";
  if (joined.rank > 0) {
    take_address(options, store->get(key, deadline.left()));
    return;
  }
  bool one_network = true;
  for (const auto& member : joined.members) one_network = one_network && member.machine == joined.members.front().machine;
  offer_address(options, *store, key, one_network);
}

StoreMeeting::~StoreMeeting() {
  try {
    const rendezvous::JoinTimeout brief(*store_, leave_timeout);
    store_->set(seat_, rendezvous::left_mark);
  } catch (const std::exception& error) {  // etcd is gone, and the job is over
    base::debug(error.what());
  }
}

}  // namespace unisono::launcher
