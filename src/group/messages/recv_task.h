#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/eager.h"
#include "engines/message.h"
#include "unisono/task.h"

namespace unisono::group {

class MessageMatcher;

/// A receive of contiguous host memory, which the matcher gives a message. It takes no memory of its own, and may be posted again when it is over.
class RecvTask : public Task {
 public:
  RecvTask() = default;
  RecvTask(MessageMatcher& matcher, const engines::MessageCall& call) { post(matcher, call); }
  ~RecvTask() override { withdraw(); }
  RecvTask(const RecvTask&) = delete;
  RecvTask& operator=(const RecvTask&) = delete;

  /// Takes the first message that has come and that no earlier receive wants, or waits for one among the posted receives.
  void post(MessageMatcher& matcher, const engines::MessageCall& call);
  /// Gives up a receive that is not over: its memory is not written any more.
  void withdraw() noexcept;
  /// Throws Mismatch, once, where the message is another one than the receive is for.
  bool advance() override;
  std::vector<int> waiting_for() const override;
  bool any_will_do() const override { return source_ < 0 && peer_ < 0; }
  bool wakes_waiter() const override { return !delivery_.task || delivery_.task->wakes_waiter(); }
  Arrival arrival() const override { return {.source = source_, .tag = header_.tag, .kind = header_.kind, .bytes = header_.bytes}; }
  bool cancel() override;
  std::string remark() const override;
  std::uint64_t sequence() const { return sequence_; }
  bool has_message() const { return source_ >= 0; }
  /// Its message has come, and is a large one that lies in the memory of its sender.
  bool has_large_copy() const { return delivery_.task != nullptr && header_.bytes > base::eager_bytes; }

 protected:
  /// Has the matcher keep it in the list of those that have been given a message (MessageMatcher::given), so that nobody need ask it for that.
  void report() { reports_ = true; }

 private:
  friend class MessageMatcher;
  bool takes(int tag) const { return engines::takes_tag(tag_, tag); }
  bool is_wrong() const { return header_.bytes != bytes_ || header_.kind != kind_; }
  void take(int source, const engines::AnnouncedMessage& message);
  [[noreturn]] void throw_mismatch() const;

  enum class State : std::uint8_t { none, posted, taken, over };
  MessageMatcher* matcher_ = nullptr;
  RecvTask *previous_ = nullptr, *next_ = nullptr;  // among the posted ones
  std::uint64_t number_ = 0;                        // among them, in order
  State state_ = State::none;
  bool reports_ = false;
  bool is_reported_ = false;
  DType dtype_ = DType::uint8;
  int peer_ = -1, tag_ = 0;
  std::uint32_t kind_ = 0;
  std::byte* to_ = nullptr;
  std::uint64_t bytes_ = 0;
  int source_ = -1;
  std::uint64_t ticket_ = 0;
  engines::MessageHeader header_;
  engines::Delivery delivery_;
  std::uint64_t sequence_ = 0;
  std::string_view label_;
};

}  // namespace unisono::group
