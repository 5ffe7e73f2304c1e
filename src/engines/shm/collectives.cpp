#include "engines/shm/collectives.h"

#include <span>

#include "engines/shm/all_to_all_v.h"
#include "engines/shm/blocks.h"
#include "engines/shm/direct.h"
#include "engines/shm/engine.h"
#include "engines/shm/moves.h"
#include "engines/shm/reductions.h"

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
    default: return use.template operator()<Barrier>();
  }
}

bool begins_direct(Lockstep& engine, const CollectiveCall& call) { return engine.size() > 1 && engine.direct().begins(call); }

/// A collective that may wait behind others for its turn. A small one may be carried out before, in the step of one in front of it.
class QueuedTask : public Task {
 public:
  void take_along(std::span<Task* const> followers) final {
    task().lead();
    for (Task* const follower : followers) task().add_follower(static_cast<QueuedTask*>(follower)->task());
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

std::unique_ptr<Task> make_collective(Lockstep& engine, const CollectiveCall& call) {
  return dispatch(engine, call, [&]<class T>() -> std::unique_ptr<Task> { return std::make_unique<Owning<T>>(engine, call); });
}

// The task lies on the caller's stack: a call allocates nothing.
void ShmEngine::carry_out(const CollectiveCall& call, Waiter& waiter) {
  if (begins_direct(lockstep_, call)) {
    const auto direct = make_direct(lockstep_, call);
    if (!direct->advance()) waiter.wait(*direct);
    if (!direct->refused()) return;
  }
  dispatch(lockstep_, call, [&]<class T>() {
    T task(lockstep_, call);
    if (!task.advance()) waiter.wait(task);
  });
}

}  // namespace unisono::engines::shm
