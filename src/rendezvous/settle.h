#pragma once

#include <memory>
#include <optional>

#include "base/socket.h"
#include "rendezvous/departure.h"
#include "rendezvous/join.h"
#include "rendezvous/plan.h"
#include "rendezvous/presence.h"
#include "rendezvous/rendezvous.h"
#include "unisono/store.h"

namespace unisono::rendezvous {

/// This side's address on the way to the store, where the store is on TCP.
using Route = std::optional<base::SocketAddress>;

/// Completes the identity of a process that has joined. `store`: where it has joined; `view`: what the job sees of it.
JobIdentity settle(Plan plan, Joined joined, const std::shared_ptr<Store>& store, std::shared_ptr<Store> view, const Route& route,
                   std::shared_ptr<Presence> presence = {}, Owner owner = Owner::library);

/// Returns the request by which this process joins as the plan says.
JoinRequest join_request(const Plan& plan);
/// Returns the part of a store that belongs to the job that was joined.
std::shared_ptr<Store> part_of(const std::shared_ptr<Store>& store, const Joined& joined);

}  // namespace unisono::rendezvous
