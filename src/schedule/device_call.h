#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "coordination/counts.h"
#include "coordination/failure_attribution.h"
#include "schedule/executor.h"
#include "unisono/call.h"
#include "unisono/task.h"

namespace unisono::schedule {

/// Returns what the ranks agree on before a collective on memory of devices, beside its operation: dtype, count, op, root, shape.
std::string device_terms(const CollectiveCall& call);
/// Makes the call in host memory by which they do. `terms` has to outlive it.
CollectiveCall agreement_on(const CollectiveCall& call, std::string_view terms);

/// A collective on memory of devices: the ranks agree on it through the engine of host memory, then the engine of devices carries it out.
class DeviceCallTask final : public Task {
 public:
  DeviceCallTask(Executor& executor, const CollectiveCall& call);

  bool advance() override;
  std::vector<int> waiting_for() const override;
  bool wakes_waiter() const override { return agreement_ && !attribution_.is_holding() && agreement_->wakes_waiter(); }
  std::shared_ptr<DeviceEvent> completion() const override { return task_->completion(); }

 private:
  void note_streams();
  CollectiveCall agreement_call();

  Executor& executor_;
  CollectiveCall call_;
  coordination::FailureAttribution attribution_;
  std::string terms_;  // compared by the agreement
  std::optional<coordination::CountsComparison> counts_;
  std::unique_ptr<Task> agreement_, task_;
};

/// Makes the attribution for an engine of devices: it names this rank where no failed peer is found.
coordination::FailureAttribution attribution_of_device(coordination::Coordination& coordination);

}  // namespace unisono::schedule
