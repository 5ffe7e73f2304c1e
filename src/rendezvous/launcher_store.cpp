#include "unisono/detail/launcher_store.h"

#include "base/environment.h"
#include "rendezvous/departure.h"
#include "rendezvous/reach.h"

namespace unisono {

std::shared_ptr<Store> detail::launcher_store(int rank, int world_size, const std::string& place, std::chrono::milliseconds timeout) {
  const auto& environment = base::Environment::process();
  if (!rendezvous::is_launched_as(environment, rank, world_size)) return nullptr;
  const auto launcher = rendezvous::store_of_own_launcher(environment);
  if (!launcher) return nullptr;
  const rendezvous::JoinTimeout bounded(*launcher, timeout);
  if (const auto job = rendezvous::store_of_launchers(*launcher, base::Deadline(timeout)))
    return std::make_shared<PrefixStore>(job->prefix + "/" + place, job->client);
  // Ranks of other hosts have launchers, and stores, of their own.
  if (environment.get_int("LOCAL_WORLD_SIZE").value_or(world_size) < world_size) return nullptr;
  return std::make_shared<PrefixStore>(place, launcher);
}

}  // namespace unisono
