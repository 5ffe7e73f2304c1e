#include "engines/shm/engine.h"

#include <type_traits>

#include <fmt/format.h>

#include "engines/shm/all_to_all_v.h"
#include "engines/shm/blocks.h"
#include "engines/shm/direct.h"
#include "engines/shm/whole.h"
#include "unisono/error.h"

namespace unisono::engines::shm {
namespace {

/// The task that carries an operation out, and the one for calls that do not prefer one shot.
template <Operation Of, class OneStage, class TwoStages = OneStage>
struct Row {
  static constexpr Operation operation = Of;
  using Small = OneStage;
  using Large = TwoStages;
};

/// The task of a call. The call must live as long.
template <class T>
class CallTask : public T {
 public:
  CallTask(Lockstep& engine, const CollectiveCall& call) : T(engine, call) {}

 private:
  std::unique_ptr<LockstepTask> direct() override { return std::make_unique<DirectTask>(this->engine(), this->call()); }
};

struct CallCopy {
  CollectiveCall copy;
};

/// The same with a copy of the call.
template <class T>
class QueuedTask final : CallCopy, public CallTask<T> {
 public:
  QueuedTask(Lockstep& engine, const CollectiveCall& call) : CallCopy{call}, CallTask<T>(engine, copy) {}
};

template <class... Rows>
struct TableOf {
  static bool has(Operation operation) { return ((Rows::operation == operation) || ...); }
  /// Carries a call out for a waiter, by a task on the stack, so that it allocates nothing; without one, returns its task.
  static std::unique_ptr<Task> begin(Lockstep& engine, const CollectiveCall& call, Waiter* waiter) {
    std::unique_ptr<Task> started;
    const auto use = [&]<class T>() {
      if (waiter == nullptr) {
        started = std::make_unique<QueuedTask<T>>(engine, call);
        return;
      }
      CallTask<T> task(engine, call);
      if (!task.advance()) waiter->wait(task);
    };
    const auto use_row = [&]<class Row>() {
      if constexpr (!std::is_same_v<typename Row::Small, typename Row::Large>) {
        if (!prefers_one_shot(engine.size(), call)) return use.template operator()<typename Row::Large>();
      }
      use.template operator()<typename Row::Small>();
    };
    if (!((Rows::operation == call.operation && (use_row.template operator()<Rows>(), true)) || ...))
      throw Unsupported(fmt::format("engine native has no {}", name_of(call)));
    return started;
  }
};

/// The operations that this engine has. Schedules compose any other.
using Table = TableOf<Row<Operation::all_reduce, OneShotAllReduce, SlicedReduce>, Row<Operation::reduce, OneShot, SlicedReduce>,
                      Row<Operation::barrier, Barrier>, Row<Operation::broadcast, Broadcast>, Row<Operation::all_gather, AllGather>,
                      Row<Operation::gather, AllGather>, Row<Operation::scatter, Scatter>, Row<Operation::reduce_scatter, ReduceScatter>,
                      Row<Operation::all_to_all, AllToAll>, Row<Operation::scan, OneShot>, Row<Operation::exscan, OneShot>,
                      Row<Operation::all_gather_v, AllGatherV>, Row<Operation::gather_v, AllGatherV>, Row<Operation::scatter_v, ScatterV>,
                      Row<Operation::reduce_scatter_v, ReduceScatterV>, Row<Operation::all_to_all_v, AllToAllV>>;

}  // namespace

ShmEngine::ShmEngine(std::shared_ptr<Segment> segment, int rank, bool is_crowded)
    : HostEngine(segment, rank, is_crowded), segment_(std::move(segment)), lockstep_(segment_, rank, is_crowded), messages_(segment_, rank) {}

ShmEngine::~ShmEngine() = default;

bool ShmEngine::offers(const CollectiveCall& call) const { return Table::has(call.operation); }

std::unique_ptr<Task> make_collective(Lockstep& engine, const CollectiveCall& call) { return Table::begin(engine, call, nullptr); }

void ShmEngine::carry_out(const CollectiveCall& call, Waiter& waiter) { static_cast<void>(Table::begin(lockstep_, call, &waiter)); }

std::unique_ptr<Task> ShmEngine::start(const CollectiveCall& call) { return make_collective(lockstep_, call); }

bool ShmEngine::agree(const CollectiveCall& call, Waiter& waiter, bool flag) {
  Agreement task(lockstep_, call, flag);
  if (!task.advance()) waiter.wait(task);
  return task.all();
}

std::unique_ptr<Task> ShmEngine::start_agreement(const CollectiveCall& call) { return std::make_unique<Agreement>(lockstep_, call, false); }

}  // namespace unisono::engines::shm
