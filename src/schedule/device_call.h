#pragma once

#include <memory>
#include <string>

#include "coordination/counts.h"
#include "coordination/failure_attribution.h"
#include "schedule/executor.h"
#include "unisono/call.h"
#include "unisono/task.h"

namespace unisono::schedule {

/// A collective on memory of devices: the ranks agree on it through the engine of the host's memory, then the engine of devices has it.
class DeviceCallTask final : public Task {
 public:
  DeviceCallTask(Executor& executor, const CollectiveCall& call);

  bool advance() override;
  std::vector<int> waiting_for() const override;
  bool wakes_waiter() const override { return agreement_ && !attribution_.is_holding() && agreement_->wakes_waiter(); }
  std::shared_ptr<DeviceEvent> completion() const override { return task_->completion(); }

 private:
  CollectiveCall agreement_call();

  Executor& executor_;
  CollectiveCall call_;
  coordination::FailureAttribution attribution_;
  std::string terms_;  // on which the ranks agree
  std::optional<coordination::CountsComparison> counts_;
  std::unique_ptr<Task> agreement_, task_;
};

/// Makes the attribution for an engine of devices: this rank is named where no peer is found.
coordination::FailureAttribution attribution_of_device(coordination::Coordination& coordination);

}  // namespace unisono::schedule
