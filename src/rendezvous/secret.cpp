#include "rendezvous/secret.h"

#include <algorithm>

#include <fmt/format.h>

#include "store/token.h"

namespace unisono::rendezvous {

void check_secret(const JobIdentity& identity, const base::Environment& environment) {
  if (identity.world_size == 1) return;
  store::check_key_of_tls(identity.token && *identity.token != "none" ? *identity.token : base::Secret(), environment);
  if (identity.store == identity.launcher_store) return;  // only processes that a launcher has started on this host reach it
  const Member& first = identity.members.front();
  const auto elsewhere = std::ranges::find_if(identity.members, [&](const Member& member) { return member.machine != first.machine; });
  if (elsewhere == identity.members.end()) return;
  store::check_token_between(fmt::format("rank {} on {}, rank {} on {}", first.rank, first.host, elsewhere->rank, elsewhere->host), identity.token);
}

}  // namespace unisono::rendezvous
