#include "coordination/host_ranks.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "base/processors.h"
#include "store/authentication.h"
#include "store/requests.h"
#include "transport/shm/handover.h"

namespace unisono::coordination {

HostRanks join_host(const HostOptions& options) {
  const int ranks = static_cast<int>(options.global_ranks.size());
  if (ranks > engines::shm::Segment::most_ranks) {
    throw Unsupported(fmt::format("the native engine serves at most {} ranks of a host, not {}", engines::shm::Segment::most_ranks, ranks),
                      {.operation = "initialize", .group = options.group_name, .hint = "start fewer ranks on this host"});
  }
  const base::Deadline deadline(options.timeout);
  const engines::shm::Segment::Shape shape{.ranks = ranks};
  const auto memory =
      transport::share_memory(*options.store, "segment", options.rank, ranks, engines::shm::Segment::size_for(shape), deadline, options.names);
  std::vector<base::Notifier*> notifiers;
  std::shared_ptr<void> keep_alive = memory.address;
  if (options.world) {
    notifiers = notifiers_of(*options.world, options.global_ranks);
    keep_alive = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<Coordination>>>(memory.address, options.world);
  }
  auto segment = std::make_shared<engines::shm::Segment>(shape, memory.address.get(), std::move(keep_alive), std::move(notifiers));
  segment->name_ranks(options.names);
  if (options.rank == 0) {
    segment->member(0).step_kib = engines::shm::asked_step_kib(base::Environment::process());
    std::ranges::copy(store::fresh_nonce(), segment->member(0).secret.begin());
  }
  auto peers = std::make_unique<Peers>(segment, options.rank, options.global_ranks, RecordedEndings(options.job_store, options.launched));
  peers->arrive(::getpid());
  // Every rank has mapped the segment and recorded itself before any of them watches or waits.
  store::Assembly(*options.store, "mapped", ranks).come(options.rank, deadline.left());
  peers->watch();
  const bool is_crowded = ranks > peers->processors();
  auto engine = std::make_shared<engines::shm::ShmEngine>(std::move(segment), options.rank, is_crowded);
  const std::size_t step_kib = engine->lockstep().step_bytes() >> 10;
  base::debug(fmt::format("schedule of group {}: shared memory, {} KiB a step for each of {} ranks", options.group_name, step_kib, ranks));
  return {.engine = std::move(engine), .peers = std::move(peers)};
}

HostRanks host_of_threads(std::shared_ptr<engines::shm::Segment> segment, int rank, int cpus, const std::vector<int>& global_ranks) {
  auto peers = std::make_unique<Peers>(segment, rank, global_ranks);
  peers->arrive(0);
  const bool is_crowded = segment->ranks() > cpus;
  return {.engine = std::make_shared<engines::shm::ShmEngine>(std::move(segment), rank, is_crowded), .peers = std::move(peers)};
}

std::vector<base::Notifier*> notifiers_of(Coordination& world, const std::vector<int>& global_ranks) {
  std::vector<base::Notifier*> notifiers;
  for (const int r : global_ranks) notifiers.push_back(world.notifier_of(r));
  if (std::ranges::find(notifiers, nullptr) != notifiers.end()) return {};
  return notifiers;
}

}  // namespace unisono::coordination
