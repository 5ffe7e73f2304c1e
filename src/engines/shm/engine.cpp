#include "engines/shm/engine.h"

#include "engines/shm/collectives.h"
#include "engines/shm/moves.h"

namespace unisono::engines::shm {

namespace {

std::vector<const base::Notifier*> notifiers_but(int rank, const Segment& segment) {
  std::vector<const base::Notifier*> others;
  for (int r = 0; r < segment.ranks(); ++r)
    if (r != rank) others.push_back(&segment.notifier(r));
  return others;
}

}  // namespace

ShmEngine::ShmEngine(std::shared_ptr<Segment> segment, int rank, bool is_crowded)
    : segment_(std::move(segment)),
      lockstep_(segment_, rank, is_crowded),
      messages_(segment_, rank),
      neighbours_(segment_->notifier(rank), notifiers_but(rank, *segment_)),
      is_crowded_(is_crowded) {}

ShmEngine::~ShmEngine() = default;

std::unique_ptr<Task> ShmEngine::start(const CollectiveCall& call) { return make_collective(lockstep_, call); }

bool ShmEngine::agree(const CollectiveCall& call, Waiter& waiter, bool flag) {
  Agreement task(lockstep_, call, flag);
  if (!task.advance()) waiter.wait(task);
  return task.all();
}

std::unique_ptr<Task> ShmEngine::start_agreement(const CollectiveCall& call) { return std::make_unique<Agreement>(lockstep_, call, false); }

}  // namespace unisono::engines::shm
