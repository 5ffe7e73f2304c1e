#include "context/state.h"

#include <string>
#include <utility>

namespace unisono::context {

State::State(int own_rank, int ranks, std::shared_ptr<recorder::Recorder> record, Job joined)
    : rank(own_rank),
      world_size(ranks),
      job(std::move(joined)),
      launcher(job.facts.launcher_store, rank, job.facts.growth.names),
      progress(std::make_shared<group::Progress>("rank " + std::to_string(rank))),
      recorder(std::move(record)) {}

State::~State() {
  termination.reset();
  progress->stop();
}

void State::open_world(group::GroupParts parts) {
  parts.rank = rank;
  for (int r = 0; r < world_size; ++r) parts.global_ranks.push_back(r);
  parts.host_names = topology.host_names;
  parts.progress = progress;
  parts.recorder = recorder;
  coordination::Coordination& coordination = parts.core->coordination();
  progress->configure(coordination.notifier(), coordination.is_crowded(), coordination.neighbours());
  whole = std::make_shared<group::Group>(std::move(parts));
  world.emplace(whole);
}

std::optional<Device> State::device() const {
  const auto& of_engine = world->implementation()->facts().device();
  return of_engine ? of_engine : own_device;
}

bool State::is_after_mismatch() const { return mismatch_at == static_cast<std::int64_t>(world->implementation()->facts().sequence()); }

}  // namespace unisono::context
