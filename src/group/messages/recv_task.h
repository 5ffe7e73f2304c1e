#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/eager.h"
#include "engines/message.h"
#include "group/messages/message_matcher.h"
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

}  // namespace unisono::group
