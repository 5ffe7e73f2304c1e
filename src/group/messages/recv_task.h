#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/eager.h"
#include "engines/message.h"
#include "group/messages/message_matcher.h"
#include "group/progress/work_state.h"
#include "recorder/recorder.h"
#include "unisono/task.h"

namespace unisono::group {

/// A receive of contiguous host memory, which the matcher gives a message. It takes no memory of its own, and may be posted again when it is over.
class RecvTask : public Task, public PostedReceive {
 public:
  RecvTask() = default;
  RecvTask(MessageMatcher& matcher, const engines::MessageCall& call) { post(matcher, call); }
  ~RecvTask() override { withdraw(); }

  /// Takes the first message that has come and that no earlier receive wants, or waits for one among the posted receives.
  void post(MessageMatcher& matcher, const engines::MessageCall& call);
  /// Gives up a receive that is not over: its memory is not written any more.
  void withdraw() noexcept;
  /// Throws Mismatch, once, where the message is another one than the receive is for.
  bool advance() override;
  std::vector<int> waiting_for() const override;
  bool any_will_do() const override { return source_ < 0 && peer() < 0; }
  bool wakes_waiter() const override { return !delivery_.task || delivery_.task->wakes_waiter(); }
  Arrival arrival() const override {
    return {.source = source_, .tag = message_.header.tag, .kind = message_.header.kind, .bytes = message_.header.bytes};
  }
  bool cancel() override;
  std::string remark() const override;
  std::uint64_t sequence() const { return sequence_; }
  bool has_message() const { return source_ >= 0; }
  /// Its message has come, and is a large one that lies in the memory of its sender.
  bool has_large_copy() const { return delivery_.task != nullptr && message_.header.bytes > base::eager_bytes; }

 private:
  bool is_wrong() const { return message_.header.bytes != bytes_ || message_.header.kind != kind_; }
  void take(int source, const engines::AnnouncedMessage& message) override;
  [[noreturn]] void throw_mismatch() const;

  enum class State : std::uint8_t { begun, taken, over };
  MessageMatcher* matcher_ = nullptr;
  State state_ = State::begun;
  DType dtype_ = DType::uint8;
  std::uint32_t kind_ = 0;
  std::byte* to_ = nullptr;
  std::uint64_t bytes_ = 0;
  int source_ = -1;
  engines::AnnouncedMessage message_;
  engines::Delivery delivery_;
  std::uint64_t sequence_ = 0;
  std::string_view label_;
};

/// A send and a receive at the same time, without a thread beside the caller: neither waits for the other one, so ranks that exchange messages copy
/// them at the same time.
class BothWays final : public Task {
 public:
  /// The receive is posted before `make_send` is called: the carrier then knows that messages go in both directions.
  template <class MakeSend>
  BothWays(MessageMatcher& matcher, const engines::MessageCall& received, MakeSend&& make_send)
      : receive_(matcher, received), send_(std::forward<MakeSend>(make_send)()) {}

  // The send comes first: its peer may begin while this rank copies what it receives. Where the receive throws, the message to the peer leaves all
  // the same.
  bool advance() override {
    is_sent_ = is_sent_ || send_->advance();
    if (!is_received_) {
      try {
        is_received_ = receive_.advance();
      } catch (...) {
        error_ = std::current_exception();
        is_received_ = true;
      }
    }
    if (!is_sent_ || !is_received_) return false;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return true;
  }
  std::vector<int> waiting_for() const override { return is_received_ ? send_->waiting_for() : receive_.waiting_for(); }
  bool any_will_do() const override { return !is_received_ && receive_.any_will_do(); }
  bool wakes_waiter() const override { return (is_sent_ || send_->wakes_waiter()) && (is_received_ || receive_.wakes_waiter()); }
  Arrival arrival() const override { return receive_.arrival(); }
  std::string remark() const override { return is_received_ ? std::string() : receive_.remark(); }

 private:
  RecvTask receive_;
  std::unique_ptr<Task> send_;
  bool is_sent_ = false, is_received_ = false;
  std::exception_ptr error_;
};

/// A receive of contiguous host memory that is under way beside its caller: the state of its Work and its place among the receives of a lane in one
/// piece of memory, which the thread that lets go of it keeps for its next one.
class PendingReceive final : public detail::WorkState {
 public:
  struct About {
    std::string_view operation;  // a string literal
    std::source_location where = {};
    recorder::Recorder::Call record = {};
    std::chrono::milliseconds timeout{};
  };
  /// Makes one for the lane, which holds it, and for `other`: a Work, or a further holder.
  static PendingReceive* make(const std::shared_ptr<Progress>& progress, const std::shared_ptr<Lane>& lane, const About& about, std::uint64_t other);
  void dispose() noexcept override;

  const About& about() const { return about_; }
  /// Returns the deadline, which counts from the first time that somebody asks: a receive that is soon over never looks at the clock.
  const base::Deadline& deadline() {
    if (!deadline_) deadline_.emplace(about_.timeout);
    return *deadline_;
  }
  /// The receive itself, as the matcher has it.
  struct Receive final : RecvTask {
    explicit Receive(PendingReceive& state) : pending(state) { report(); }
    PendingReceive& pending;
  };
  static PendingReceive& of(PostedReceive& receive) { return static_cast<Receive&>(receive).pending; }

  Receive task{*this};
  bool warned = false;
  bool is_moving = false;                               // its message has come in part
  PendingReceive *previous = nullptr, *next = nullptr;  // in the lane

 private:
  PendingReceive() = default;
  ~PendingReceive() override = default;
  friend class RecycledReceives;

  About about_;
  std::optional<base::Deadline> deadline_;
};

}  // namespace unisono::group
