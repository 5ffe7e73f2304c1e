// The memory and the engine of a host's ranks, as coordination and groups make them (engines/host_engine.h).
#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "engines/shm/engine.h"
#include "store/authentication.h"
#include "transport/shm/handover.h"

namespace unisono::engines {

using shm::Segment;

std::shared_ptr<HostMemory> share_host_memory(Store& store, int rank, int ranks, const std::vector<int>& names, const base::Deadline& deadline,
                                              std::vector<base::Notifier*> notifiers, std::shared_ptr<void> keep_alive) {
  const Segment::Shape shape{.ranks = ranks};
  const auto memory = transport::share_memory(store, "segment", rank, ranks, Segment::size_for(shape), deadline, names);
  auto both = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(memory.address, std::move(keep_alive));
  auto segment = std::make_shared<Segment>(shape, memory.address.get(), std::move(both), std::move(notifiers));
  segment->name_ranks(names);
  if (rank == 0) std::ranges::copy(store::fresh_nonce(), segment->member(0).secret.begin());
  return segment;
}

std::shared_ptr<HostMemory> host_memory_of_threads(int ranks, std::vector<base::Notifier*> notifiers, std::shared_ptr<void> keep_alive) {
  const Segment::Shape shape{.ranks = ranks};
  auto memory = shm::private_memory(Segment::size_for(shape));
  auto* const address = memory.get();
  auto both = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(std::move(memory), std::move(keep_alive));
  return std::make_shared<Segment>(shape, address, std::move(both), std::move(notifiers));
}

std::shared_ptr<HostEngine> make_host_engine(const std::shared_ptr<HostMemory>& memory, int rank, bool is_crowded, std::string_view group_name) {
  auto engine = std::make_shared<shm::ShmEngine>(std::static_pointer_cast<Segment>(memory), rank, is_crowded);
  if (!group_name.empty()) {
    base::debug(fmt::format("schedule of group {}: shared memory, {} KiB a step for each of {} ranks", group_name,
                            engine->lockstep().step_bytes() >> 10, memory->ranks()));
  }
  return engine;
}

}  // namespace unisono::engines
