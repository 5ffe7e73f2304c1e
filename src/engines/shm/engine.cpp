#include "engines/shm/engine.h"

#include <span>

#include <fmt/format.h>

#include "engines/shm/all_to_all_v.h"
#include "engines/shm/blocks.h"
#include "engines/shm/direct.h"
#include "engines/shm/moves.h"
#include "engines/shm/reductions.h"
#include "unisono/error.h"

namespace unisono::engines::shm {
namespace {

/// Calls `use` with the class that carries a call out.
template <class Use>
auto dispatch(const Lockstep& engine, const CollectiveCall& call, Use&& use) {
  const int n = engine.size();
  const std::size_t bytes = call.count * size_of(call.in.dtype());
  switch (call.operation) {
    case Operation::all_reduce:
      return prefers_one_shot(n, bytes, call.in.dtype()) ? use.template operator()<OneShotAllReduce>() : use.template operator()<SlicedReduce>();
    case Operation::reduce:
      return prefers_one_shot(n, bytes, DType::float32) ? use.template operator()<OneShotReduce>() : use.template operator()<SlicedReduce>();
    case Operation::reduce_scatter: return use.template operator()<ReduceScatter>();
    case Operation::scan:
    case Operation::exscan: return use.template operator()<Scan>();
    case Operation::broadcast: return use.template operator()<Broadcast>();
    case Operation::all_gather: return use.template operator()<AllGather>();
    case Operation::gather: return use.template operator()<Gather>();
    case Operation::scatter: return use.template operator()<Scatter>();
    case Operation::all_to_all: return use.template operator()<AllToAll>();
    case Operation::all_gather_v: return use.template operator()<AllGatherV>();
    case Operation::gather_v: return use.template operator()<GatherV>();
    case Operation::scatter_v: return use.template operator()<ScatterV>();
    case Operation::reduce_scatter_v: return use.template operator()<ReduceScatterV>();
    case Operation::all_to_all_v: return use.template operator()<AllToAllV>();
    case Operation::barrier: return use.template operator()<Barrier>();
    case Operation::send:
    case Operation::recv: break;
  }
  throw Unsupported(fmt::format("engine native has no {}", name_of(call)));
}

bool begins_direct(Lockstep& engine, const CollectiveCall& call) { return engine.size() > 1 && engine.direct().begins(call); }

/// A collective that may wait behind others for its turn. A small one may be carried out before, in the step of one in front of it.
class QueuedTask : public Task {
 public:
  void take_along(std::span<Task* const> followers) final {
    task().lead();
    for (Task* const follower : followers) {
      auto* const queued = dynamic_cast<QueuedTask*>(follower);
      if (queued == nullptr) break;  // a task of another engine
      task().add_follower(queued->task());
    }
  }

 private:
  virtual LockstepTask& task() = 0;
};

/// A call and the tasks that carry it out, directly if that is expected when its turn comes.
template <class T>
class Owning final : public QueuedTask {
 public:
  Owning(Lockstep& engine, const CollectiveCall& call) : engine_(engine), call_(call), task_(engine, call_), is_small_step_(task_.is_small_step()) {}
  bool advance() override {
    if (!begun_) {
      begun_ = true;
      if (begins_direct(engine_, call_)) direct_ = make_direct(engine_, call_);
    }
    if (direct_) {
      if (!direct_->advance()) return false;
      if (!direct_->refused()) return true;
      direct_.reset();
    }
    return task_.advance();
  }
  bool shares_step() const override { return is_small_step_ && !task_.has_begun(); }
  std::vector<int> waiting_for() const override { return direct_ ? direct_->waiting_for() : task_.waiting_for(); }

 private:
  LockstepTask& task() override { return task_; }

  Lockstep& engine_;
  CollectiveCall call_;
  bool begun_ = false;
  std::unique_ptr<DirectTask> direct_;
  T task_;
  const bool is_small_step_;
};

}  // namespace

ShmEngine::ShmEngine(std::shared_ptr<Segment> segment, int rank, bool is_crowded)
    : HostEngine(segment, rank, is_crowded), segment_(std::move(segment)), lockstep_(segment_, rank, is_crowded), messages_(segment_, rank) {}

ShmEngine::~ShmEngine() = default;

std::unique_ptr<Task> make_collective(Lockstep& engine, const CollectiveCall& call) {
  return dispatch(engine, call, [&]<class T>() -> std::unique_ptr<Task> { return std::make_unique<Owning<T>>(engine, call); });
}

// The task lies on the caller's stack: a call allocates nothing.
void ShmEngine::carry_out(const CollectiveCall& call, Waiter& waiter) {
  dispatch(lockstep_, call, [&]<class T>() {
    if (begins_direct(lockstep_, call)) {
      const auto direct = make_direct(lockstep_, call);
      if (!direct->advance()) waiter.wait(*direct);
      if (!direct->refused()) return;
    }
    T task(lockstep_, call);
    if (!task.advance()) waiter.wait(task);
  });
}

std::unique_ptr<Task> ShmEngine::start(const CollectiveCall& call) { return make_collective(lockstep_, call); }

bool ShmEngine::agree(const CollectiveCall& call, Waiter& waiter, bool flag) {
  Agreement task(lockstep_, call, flag);
  if (!task.advance()) waiter.wait(task);
  return task.all();
}

std::unique_ptr<Task> ShmEngine::start_agreement(const CollectiveCall& call) { return std::make_unique<Agreement>(lockstep_, call, false); }

}  // namespace unisono::engines::shm
