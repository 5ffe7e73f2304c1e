#include "schedule/device_call.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engines/device_memory.h"
#include "unisono/cuda.h"

namespace unisono::schedule {
namespace {

std::string text_of(const CollectiveCall& call) {
  std::string text = fmt::format("{} x {}", to_string(call.in.dtype()), call.count);
  if (call.operation == Operation::all_to_all_v) text = to_string(call.in.dtype());
  if (reduces(call.operation)) text.append(", ").append(call.custom ? "custom operation" : to_string(call.op));
  if (call.root >= 0) text.append(fmt::format(", root {}", call.root));
  if (call.tag != 0) text.append(fmt::format(", tag {}", call.tag));
  if (call.operation != Operation::all_to_all_v && call.counts.size() > 0)
    text.append(fmt::format(", counts {}", fmt::join(call.counts.span(), " ")));
  return text;
}

}  // namespace

/// A peer's failure is known this soon after the failure of a call on a device.
constexpr std::chrono::milliseconds device_grace{300};

coordination::FailureAttribution attribution_of_device(coordination::Coordination& coordination) {
  return {coordination, {.culprit = coordination.rank(), .cause = PeerFailed::Cause::aborted, .grace = device_grace, .passes_errors = true}};
}

DeviceCallTask::DeviceCallTask(Executor& executor, const CollectiveCall& call)
    : executor_(executor), call_(call), attribution_(attribution_of_device(executor.coordination())) {
  const Device device = executor.device_engine()->device();
  engines::sample_device_memory(device);
  call_.device = call.device ? std::make_shared<DeviceCall>(*call.device) : std::make_shared<DeviceCall>();
  terms_ = call_.also.empty() ? text_of(call_) : std::string(call_.also);
  if (!call_.also.empty() && call_.label == to_string(call_.operation)) terms_.insert(0, text_of(call_) + " ");  // a shape, see group/shapes.h
  terms_.append(", on ").append("device memory");
  const CollectiveCall agreement = agreement_call();
  // The call waits for the work that was on the stream when it was made, whichever thread continues it later.
  static_cast<void>(attribution_.attempt([&] {
    DeviceRuntime& runtime = *device_runtime();
    void* stream = current_stream();
    call_.device->after.push_back(runtime.record(device, stream));
    for (const TensorView& tensor : call_.device->ins) {
      if (stream == nullptr && tensor.device() != device) call_.device->after.push_back(runtime.record(tensor.device(), nullptr));
    }
    agreement_ = executor_.start(agreement);
  }));
}

CollectiveCall DeviceCallTask::agreement_call() {
  CollectiveCall agreement;
  if (call_.operation == Operation::all_to_all_v) {  // the counts that a rank sends must be those that its peer expects
    counts_.emplace(call_, executor_.coordination().rank(), executor_.coordination().size());
    agreement = counts_->gather();
  }
  agreement.sequence = call_.sequence;
  agreement.label = name_of(call_);
  agreement.also = terms_;
  return agreement;
}

bool DeviceCallTask::advance() {
  if (attribution_.is_holding()) return attribution_.advance();
  try {
    if (agreement_) {
      if (!agreement_->advance()) return false;
      agreement_.reset();
      if (counts_) counts_->judge();
    }
    if (!task_) task_ = executor_.device_engine()->start(call_);
    return task_->advance();
  } catch (...) {
    attribution_.hold_current();
  }
  return attribution_.advance();
}

std::vector<int> DeviceCallTask::waiting_for() const {
  return agreement_ ? agreement_->waiting_for() : task_ ? task_->waiting_for() : std::vector<int>{};
}

}  // namespace unisono::schedule
