#include "group/devices/device_messages.h"

#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "group/messages/channel_carrier.h"
#include "group/messages/recv_task.h"
#include "schedule/device_call.h"
#include "unisono/cuda.h"
#include "unisono/error.h"

namespace unisono::group {
namespace {

constexpr std::string_view answer_label = "answer to a send of device memory";

// Answers have the lowest tags there are, which no program may give.
int tag_of_answer(std::uint64_t ticket) { return std::numeric_limits<int>::min() + static_cast<int>(ticket % engines::reserved_tags); }

template <class T>
TensorView words_of(T& message) {
  static_assert(sizeof(T) <= longest_own_message);
  return {&message, DType::uint64, sizeof(T) / sizeof(std::uint64_t)};
}

using Events = std::vector<std::shared_ptr<DeviceEvent>>;

/// Returns the event after which the message may come: the end of all that was on the caller's stream when the call was made.
Events after_now(coordination::FailureAttribution& attribution, Device device) {
  Events events;
  static_cast<void>(attribution.attempt([&] { events.push_back(device_runtime()->record(device, current_stream())); }));
  return events;
}

std::string elements(std::uint64_t dtype, std::uint64_t count) { return fmt::format("{} x {}", to_string(static_cast<DType>(dtype)), count); }

}  // namespace

/// The part that both sides have in common.
class DeviceMessages::Side : public Task {
 public:
  std::shared_ptr<DeviceEvent> completion() const override { return task_->completion(); }

 protected:
  Side(DeviceMessages& messages, const engines::MessageCall& call)
      : messages_(messages),
        call_(call),
        attribution_(schedule::attribution_of_device(messages.coordination_)),
        after_(after_now(attribution_, messages.engine_.device())) {}
  engines::MessageCall announcement() {
    return {.data = words_of(announcement_), .peer = call_.peer, .tag = call_.tag, .sequence = call_.sequence, .label = engines::device_announcement};
  }
  engines::MessageCall answer(int peer) {
    return {.data = words_of(answer_), .peer = peer, .tag = tag_of_answer(announcement_.ticket), .sequence = call_.sequence, .label = answer_label};
  }

  DeviceMessages& messages_;
  engines::MessageCall call_;
  coordination::FailureAttribution attribution_;
  Events after_;
  Announcement announcement_;
  Answer answer_;
  std::unique_ptr<Task> host_task_;  // of the announcement, then of the answer
  std::unique_ptr<Task> task_;       // of the engine
};

class DeviceMessages::Send final : public Side {
 public:
  Send(DeviceMessages& messages, const engines::MessageCall& call) : Side(messages, call) {
    announcement_ = {static_cast<std::uint64_t>(call.data.dtype()), static_cast<std::uint64_t>(call.data.numel()), messages.announced_[call.peer]++};
    host_task_ = messages.host_.send(announcement());
  }

  bool advance() override {
    return attribution_.guard([&] {
      if (state_ == State::announcing) {
        if (!host_task_->advance()) return false;
        host_task_ = std::make_unique<RecvTask>(messages_.host_, answer(call_.peer));
        state_ = State::answered;
      }
      if (state_ == State::answered) {
        if (!host_task_->advance()) return false;
        if (answer_.fits == 0) {
          throw Mismatch(
              fmt::format("rank {} does not receive {}", call_.peer, elements(announcement_.dtype, announcement_.count)),
              {.operation = "send", .sequence = call_.sequence, .culprit = call_.peer, .hint = "nothing was sent, the group stays usable"});
        }
        state_ = State::given;
      }
      if (!task_) {
        if (messages_.given_[call_.peer] != answer_.number) return false;  // the receiver has another message before it
        ++messages_.given_[call_.peer];
        task_ = messages_.engine_.start_device_send(call_.data, call_.peer, after_);
      }
      return task_->advance();
    });
  }
  std::vector<int> waiting_for() const override { return task_ ? task_->waiting_for() : std::vector<int>{call_.peer}; }
  bool wakes_waiter() const override { return task_ || state_ == State::given ? false : host_task_->wakes_waiter(); }

 private:
  enum class State { announcing, answered, given } state_ = State::announcing;
};

class DeviceMessages::Recv final : public Side {
 public:
  Recv(DeviceMessages& messages, const engines::MessageCall& call) : Side(messages, call) {
    host_task_ = std::make_unique<RecvTask>(messages.host_, announcement());
  }

  bool advance() override {
    return attribution_.guard([&] {
      if (arrival_.source < 0) {
        if (!host_task_->advance()) return false;
        arrival_ = host_task_->arrival();
        const Announcement own{static_cast<std::uint64_t>(call_.data.dtype()), static_cast<std::uint64_t>(call_.data.numel()), announcement_.ticket};
        answer_.fits = announcement_.dtype == own.dtype && announcement_.count == own.count ? 1 : 0;
        if (answer_.fits != 0) answer_.number = messages_.answered_[arrival_.source]++;
        host_task_ = messages_.host_.send(answer(arrival_.source));
        if (answer_.fits != 0) task_ = messages_.engine_.start_device_recv(call_.data, arrival_.source, after_);
      }
      if (host_task_) {
        if (!host_task_->advance()) return false;
        host_task_.reset();
      }
      if (!task_) {
        throw Mismatch(
            fmt::format("rank {} sent {}, but the receive is of {}", arrival_.source, elements(announcement_.dtype, announcement_.count),
                        elements(static_cast<std::uint64_t>(call_.data.dtype()), static_cast<std::uint64_t>(call_.data.numel()))),
            {.operation = "recv", .sequence = call_.sequence, .culprit = arrival_.source, .hint = "the message is gone, the group stays usable"});
      }
      return task_->advance();
    });
  }
  std::vector<int> waiting_for() const override { return host_task_ ? host_task_->waiting_for() : task_ ? task_->waiting_for() : std::vector<int>{}; }
  bool any_will_do() const override { return arrival_.source < 0 && host_task_ && host_task_->any_will_do(); }
  bool cancel() override { return arrival_.source < 0 && host_task_ && host_task_->cancel(); }
  std::string remark() const override { return arrival_.source < 0 && host_task_ ? host_task_->remark() : std::string(); }
  bool wakes_waiter() const override { return host_task_ ? host_task_->wakes_waiter() : false; }
  Arrival arrival() const override {
    return {.source = arrival_.source,
            .tag = arrival_.tag,
            .kind = static_cast<std::uint32_t>(announcement_.dtype),
            .bytes = announcement_.count * size_of(static_cast<DType>(announcement_.dtype))};
  }

 private:
  Arrival arrival_;  // of the announcement
};

std::unique_ptr<Task> DeviceMessages::send(const engines::MessageCall& call) { return std::make_unique<Send>(*this, call); }
std::unique_ptr<Task> DeviceMessages::recv(const engines::MessageCall& call) { return std::make_unique<Recv>(*this, call); }

}  // namespace unisono::group
