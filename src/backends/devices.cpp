#include "backends/devices.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "backends/device_memory.h"
#include "backends/suspicion.h"
#include "engine/cooperative/ballots.h"
#include "unisono/cuda.h"
#include "unisono/error.h"

namespace unisono::backends {
namespace {

bool is_on_device(const Tensor& tensor) { return tensor.device().type != Device::Type::cpu; }

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

/// First the ranks agree, on the host; then the engine has it.
class Devices::Collective final : public Task {
 public:
  Collective(Devices& devices, const CollectiveCall& call) : devices_(devices), call_(call), suspicion_(*devices.host_, devices.rank_) {
    const auto size = static_cast<std::size_t>(devices.size_);
    call_.device = call.device ? std::make_shared<DeviceCall>(*call.device) : std::make_shared<DeviceCall>();
    terms_ = call_.also.empty() ? text_of(call_) : std::string(call_.also);
    if (!call_.also.empty() && call_.label == to_string(call_.operation)) terms_.insert(0, text_of(call_) + " ");  // a shape, see group/shapes.h
    terms_.append(", on ").append("device memory");
    CollectiveCall agreement;
    agreement.sequence = call.sequence;
    agreement.label = name_of(call_);
    agreement.also = terms_;
    if (call.operation == Operation::all_to_all_v) {  // what each sends must be what the other expects
      own_counts_.assign(call.counts.begin(), call.counts.end());
      own_counts_.insert(own_counts_.end(), call.recv_counts.begin(), call.recv_counts.end());
      all_counts_.resize(2 * size * size);
      agreement.operation = Operation::all_gather;
      agreement.in = Tensor(own_counts_.data(), DType::uint64, own_counts_.size());
      agreement.out = Tensor(all_counts_.data(), DType::uint64, all_counts_.size());
      agreement.count = own_counts_.size();
    }
    // What the memory waits for is what was on the stream when the call was made, whoever goes on with it later.
    suspicion_.prepare([&] {
      DeviceRuntime& runtime = *device_runtime();
      void* stream = current_stream();
      call_.device->after.push_back(runtime.record(devices.device_, stream));
      for (const Tensor& tensor : call_.device->ins) {
        if (stream == nullptr && tensor.device() != devices.device_) call_.device->after.push_back(runtime.record(tensor.device(), nullptr));
      }
      agreement_ = devices.host_->start(agreement);
    });
  }

  bool advance() override {
    return suspicion_.guard([&] {
      if (agreement_) {
        if (!agreement_->advance()) return false;
        agreement_.reset();
        check_counts();
      }
      if (!task_) task_ = devices_.engine_->start(call_);
      return task_->advance();
    });
  }
  std::vector<int> waiting_for() const override { return agreement_ ? agreement_->waiting_for() : task_ ? task_->waiting_for() : std::vector<int>{}; }
  bool is_rung_for() const override { return agreement_ ? agreement_->is_rung_for() : false; }
  std::shared_ptr<DeviceEvent> completion() const override { return task_->completion(); }

 private:
  // Every rank looks at the counts of all, so that all of them find the same.
  void check_counts() const {
    if (all_counts_.empty()) return;
    const auto size = static_cast<std::size_t>(devices_.size_);
    std::vector<engine::Conflict> conflicts;
    for (std::size_t from = 0; from < size; ++from) {
      for (std::size_t to = 0; to < size; ++to) {
        const std::uint64_t sent = all_counts_[2 * size * from + to], expected = all_counts_[2 * size * to + size + from];
        if (sent == expected) continue;
        conflicts.push_back({.a = static_cast<int>(from),
                             .b = static_cast<int>(to),
                             .text = fmt::format("rank {} sends {} elements to rank {}, which expects {}", from, sent, to, expected)});
      }
    }
    if (conflicts.empty()) return;
    const engine::Decision decision = engine::decide(conflicts, devices_.size_);
    throw engine::Disagreement(engine::describe(decision, decision.blames(devices_.rank_)),
                               {.operation = std::string(name_of(call_)),
                                .sequence = call_.sequence,
                                .rank = devices_.rank_,
                                .culprit = decision.culprit(),
                                .hint = engine::mismatch_hint},
                               decision.ranks);
  }

  Devices& devices_;
  CollectiveCall call_;
  Suspicion suspicion_;
  std::string terms_;
  std::vector<std::uint64_t> own_counts_, all_counts_;
  std::unique_ptr<Task> agreement_, task_;
};

Devices::Devices(std::string name, std::unique_ptr<Backend> host, std::unique_ptr<Engine> engine, int rank, int size)
    : name_(std::move(name)),
      host_(std::move(host)),
      engine_(std::move(engine)),
      device_(engine_->device()),
      rank_(rank),
      size_(size),
      messages_(*host_, *engine_, device_, rank) {
  register_device_runtime(engine_->runtime());
}

Devices::~Devices() = default;

Capabilities Devices::capabilities() const {
  Capabilities all = host_->capabilities();
  all.device = device_;
  return all;
}

void Devices::run(const CollectiveCall& call, Waiter& waiter) {
  if (is_on_device(call.in) || is_on_device(call.out)) return Backend::run(call, waiter);
  host_->run(call, waiter);
}

std::unique_ptr<Task> Devices::start(const CollectiveCall& call) {
  if (!is_on_device(call.in) && !is_on_device(call.out)) return host_->start(call);
  sample_device_memory(device_);
  return std::make_unique<Collective>(*this, call);
}

std::unique_ptr<Task> Devices::start_send(const MessageCall& call) {
  return is_on_device(call.data) ? messages_.send(call) : host_->start_send(call);
}
std::unique_ptr<Task> Devices::start_recv(const MessageCall& call) {
  return is_on_device(call.data) ? messages_.recv(call) : host_->start_recv(call);
}

void Devices::end_engine(const Failure& failure) noexcept {
  if (!engine_over_.exchange(true)) engine_->abort(failure);
}

void Devices::poison(const Failure& failure) {
  host_->poison(failure);
  end_engine(failure);
}

std::optional<Failure> Devices::failure() {
  auto failure = host_->failure();
  if (failure) end_engine(*failure);
  return failure;
}

std::optional<Failure> Devices::look_for_failures(std::span<const int> waiting_for, bool any_will_do) {
  return host_->look_for_failures(waiting_for, any_will_do);
}

void Devices::leave() {
  if (const auto failure = host_->failure()) end_engine(*failure);
  else if (!engine_over_.exchange(true)) engine_->leave();
  host_->leave();
}

}  // namespace unisono::backends
