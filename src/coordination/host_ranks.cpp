#include "coordination/host_ranks.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "store/requests.h"
#include "base/log.h"
#include "base/processors.h"
#include "store/authentication.h"
#include "transport/shm/handover.h"

namespace unisono::coordination {

HostRanks join_host(const HostOptions& options) {
  const int ranks = static_cast<int>(options.global_ranks.size());
  if (ranks > engines::most_ranks_of_host) {
    throw Unsupported(fmt::format("the native engine serves at most {} ranks of a host, not {}", engines::most_ranks_of_host, ranks),
                      {.operation = "initialize", .group = options.group_name, .hint = "start fewer ranks on this host"});
  }
  const base::Deadline deadline(options.timeout);
  std::vector<base::Notifier*> notifiers;
  if (options.world) notifiers = notifiers_of(*options.world, options.global_ranks);
  auto memory = engines::share_host_memory(*options.store, options.rank, ranks, options.names, deadline, std::move(notifiers), options.world);
  RecordedEndings recorded(options.job_store, [launched = options.launched](int r) { return launched[static_cast<std::size_t>(r)]; });
  auto peers = std::make_unique<Peers>(memory, options.rank, options.global_ranks, std::move(recorded));
  peers->arrive(::getpid());
  // Every rank has mapped the memory and recorded itself before any of them watches or waits.
  store::Assembly(*options.store, "mapped", ranks).come(options.rank, deadline.left());
  peers->watch();
  const bool is_crowded = ranks > peers->processors();
  return {.engine = engines::make_host_engine(memory, options.rank, is_crowded, options.group_name), .peers = std::move(peers)};
}

HostRanks host_of_threads(const std::shared_ptr<engines::HostMemory>& memory, int rank, int cpus, const std::vector<int>& global_ranks) {
  auto peers = std::make_unique<Peers>(memory, rank, global_ranks);
  peers->arrive(0);
  return {.engine = engines::make_host_engine(memory, rank, memory->ranks() > cpus), .peers = std::move(peers)};
}

std::vector<base::Notifier*> notifiers_of(Coordination& world, const std::vector<int>& global_ranks) {
  std::vector<base::Notifier*> notifiers;
  for (const int r : global_ranks) notifiers.push_back(world.notifier_of(r));
  if (std::ranges::find(notifiers, nullptr) != notifiers.end()) return {};
  return notifiers;
}

}  // namespace unisono::coordination
