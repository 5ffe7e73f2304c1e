#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/device_copy.h"
#include "group/devices/device_group.h"
#include "group/devices/device_streams.h"
#include "schedule/device_call.h"
#include "unisono/call.h"
#include "unisono/detail/request.h"
#include "unisono/task.h"

namespace unisono::group {

using Tensors = std::vector<TensorView>;

/// What all ways of a call on memory of devices have in common: the memory, and the events that it waits for.
class DeviceTask : public Task {
 public:
  DeviceTask(DeviceGroup& group, Tensors ins, Tensors outs, LastOnDevice last)
      : group_(group),
        ins_(std::move(ins)),
        outs_(std::move(outs)),
        last_(std::move(last)),
        attribution_(schedule::attribution_of_device(group.core().coordination())) {
    views_ = ins_;
    views_.insert(views_.end(), outs_.begin(), outs_.end());
    const Device::Type type = std::ranges::find_if(views_, [](const TensorView& view) { return is_on_device(view); })->device().type;
    runtime_ = &engines::require_runtime(type);
    static_cast<void>(attribution_.attempt([&] { after_ = events_now(*runtime_, views_); }));
  }
  std::vector<int> waiting_for() const override { return task_ ? task_->waiting_for() : std::vector<int>{}; }
  bool any_will_do() const override { return task_ && task_->any_will_do(); }
  Arrival arrival() const override { return task_ ? task_->arrival() : Arrival{}; }
  bool cancel() override { return ins_.empty() && (!task_ || task_->cancel()); }  // a collective has input as well
  std::string remark() const override { return task_ ? task_->remark() : std::string(); }

 protected:
  /// Returns the events that the first step waits for. Not before the call's turn.
  const Events& after() {
    if (auto last = last_ ? std::exchange(last_, nullptr)() : nullptr) after_.push_back(std::move(last));
    return after_;
  }

  DeviceGroup& group_;
  Tensors ins_, outs_, views_;
  DeviceRuntime* runtime_ = nullptr;
  LastOnDevice last_;
  Events after_;
  coordination::FailureAttribution attribution_;
  std::unique_ptr<Task> task_;
};

class DeviceGroup;

/// Returns true for a call that goes through the host piece by piece. All ranks get the same answer.
bool goes_in_pieces(const CollectiveCall& call, const detail::Request& request);

/// Makes the task of a call on memory of devices, contiguous there, that goes through the host's memory piece by piece: while the host's engine
/// carries out one piece, the devices copy the next ones to the host and the last ones back.
///
/// With two ranks and an all_reduce of four pieces (r: to the host, x: the ranks' exchange, w: back):
///
///     to the host   r0 r1 r2 r3
///     exchange         x0 x1 x2 x3
///     back                w0 w1 w2 w3
///
/// A call of several pieces begins with an agreement on the whole, since the first pieces of different calls may be alike. The call is done when the
/// result is on the device. `last`: see device_task.
std::unique_ptr<Task> pieces_through_host(DeviceGroup& group, const CollectiveCall& call, LastOnDevice last);

}  // namespace unisono::group
