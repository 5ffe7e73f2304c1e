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

/// The end of the caller's stream as it is when somebody asks: the caller of a blocking call puts nothing there meanwhile. An operation that is put
/// on that stream comes after it anyway, so that nothing is recorded then.
class EndOfCallersStream final : public DeviceEvent {
 public:
  EndOfCallersStream(Device device, void* stream) : device_(device), stream_(stream) {}
  bool reached() override { return event().reached(); }
  void order(void* stream) override {
    if (stream != stream_) event().order(stream);
  }

 private:
  DeviceEvent& event() {
    if (!event_) event_ = device_runtime()->record(device_, stream_);
    return *event_;
  }
  Device device_;
  void* stream_;
  std::shared_ptr<DeviceEvent> event_;
};

}  // namespace

std::string device_terms(const CollectiveCall& call) {
  std::string terms = call.also.empty() ? text_of(call) : std::string(call.also);
  if (!call.also.empty() && call.label == to_string(call.operation)) terms.insert(0, text_of(call) + " ");  // a shape, see group/calls/check.h
  return terms.append(", on device memory");
}

CollectiveCall agreement_on(const CollectiveCall& call, std::string_view terms) {
  CollectiveCall agreement;
  agreement.sequence = call.sequence;
  agreement.label = name_of(call);
  agreement.also = terms;
  return agreement;
}

/// A peer's failure is known this soon after the failure of a call on a device.
constexpr std::chrono::milliseconds device_grace{300};

coordination::FailureAttribution attribution_of_device(coordination::Coordination& coordination) {
  return {coordination, {.culprit = coordination.rank(), .cause = PeerFailed::Cause::aborted, .grace = device_grace, .passes_errors = true}};
}

DeviceCallTask::DeviceCallTask(Executor& executor, const CollectiveCall& call)
    : executor_(executor), call_(call), attribution_(attribution_of_device(executor.coordination())) {
  engines::sample_device_memory(executor.device_engine()->device());
  if (!call.device) call_.device = std::make_shared<DeviceCall>();
  else if (!call.device->ins.empty()) call_.device = std::make_shared<DeviceCall>(*call.device);  // the caller keeps its list
  static_cast<void>(attribution_.attempt([&] {
    note_streams();
    // A rank that is alone has nobody to agree with; the counts of all_to_all_v are compared all the same.
    if (executor_.coordination().size() > 1 || call_.operation == Operation::all_to_all_v) agreement_ = executor_.start(agreement_call());
  }));
}

// The call waits for the work that was on the stream when it was made, whichever thread continues it later.
void DeviceCallTask::note_streams() {
  const Device device = executor_.device_engine()->device();
  DeviceCall& own = *call_.device;
  if (own.stream && own.ins.empty()) {
    own.after.push_back(std::make_shared<EndOfCallersStream>(device, *own.stream));
    return;
  }
  own.stream.reset();
  DeviceRuntime& runtime = *device_runtime();
  void* const stream = current_stream();
  own.after.push_back(runtime.record(device, stream));
  for (const TensorView& tensor : own.ins) {
    if (stream == nullptr && tensor.device() != device) own.after.push_back(runtime.record(tensor.device(), nullptr));
  }
}

CollectiveCall DeviceCallTask::agreement_call() {
  terms_ = device_terms(call_);
  CollectiveCall agreement = agreement_on(call_, terms_);
  if (call_.operation == Operation::all_to_all_v) {  // the counts that a rank sends must be those that its peer expects
    counts_.emplace(call_, executor_.coordination().rank(), executor_.coordination().size());
    agreement = counts_->gather();
    agreement.sequence = call_.sequence;
    agreement.label = name_of(call_);
    agreement.also = terms_;
  }
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
