#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/secret.h"
#include "base/socket.h"
#include "store/server.h"
#include "unisono/store.h"

namespace unisono::rendezvous {

// `unisono run` serves a store for the ranks of its host, and tells them of it in two ways. It listens at an abstract local address that follows from
// the job's name and attempt. It also hands a connected socket down (UNISONO_LAUNCHER_FD). The address comes first: every program that connects there
// gets a connection of its own, so that a rank may be a wrapper that closes descriptors, or run one program after another. The socket serves
// processes in another network namespace, where the address is not known.

/// The key that is there where the launcher starts other processes in the place of lost ones.
inline constexpr std::string_view elastic_key = "unisono/elastic";
/// The key of a text that says which cores the launcher has bound its ranks to, or why it has not.
inline constexpr std::string_view placement_key = "unisono/placement";

/// Returns the address at which the launcher of a job serves the store of its ranks.
base::SocketAddress launcher_address(std::string_view job_id, int attempt);

/// Returns the store of the launcher that has started this process, or a process above it. The store lives as long as the process: later calls return
/// the same one. Throws InvalidArgument where the variables lead to no launcher, and Timeout where the launcher does not answer in time.
std::shared_ptr<Store> launcher_store(const base::Environment& environment, const base::Deadline& deadline);

/// Returns that store for a group that met elsewhere. Null unless the launcher's variables are there, and the launcher takes this process for one of
/// its own.
std::shared_ptr<Store> store_of_own_launcher(const base::Environment& environment, const base::Deadline& deadline);
/// Returns true where the launcher has started this process as that rank of that many: then a world of these numbers may be its job.
bool is_launched_as(const base::Environment& environment, int rank, int world_size);
/// Returns the secret of a job of several hosts, or "none", as its launcher tells it.
std::optional<base::Secret> token_of_launcher(Store& launcher_store);
/// Tells the ranks, before the store serves them, for how long another host may be silent.
void tell_of_silence(store::StoreServer& launcher_store, std::chrono::milliseconds limit);

}  // namespace unisono::rendezvous
