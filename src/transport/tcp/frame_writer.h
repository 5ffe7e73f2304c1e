#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <utility>

#include "transport/tcp/connection.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/frame_codes.h"
#include "transport/tcp/transfer.h"

namespace unisono::transport {

/// The frames that wait for one connection. Small frames keep their order and go first. Large messages are sent from the sender's memory without a
/// copy, in turns of one data frame each, so that none waits for the end of another.
class FrameWriter {
 public:
  FrameWriter() = default;  ///< of no connection
  /// `key`: of the codes of the frames.
  explicit FrameWriter(base::Secret key) : codes_(std::move(key)) {}

  enum class State { empty, blocked, unfinished, broken };  ///< unfinished: the budget was used up, the socket would take more

  /// Writes a frame with a payload in two parts if nothing waits, and keeps the bytes that the socket does not take.
  void write(const Connection& to, const FrameHead& head, std::span<const std::byte> payload = {}, std::span<const std::byte> more = {});
  /// Sends the bytes of a message that may move. Its transfer finishes when the last byte is written; where not all may move yet, it is called again
  /// when they may.
  void stream(const TransferPtr& transfer);
  /// Removes a message whose sender has given up, so that its memory may go. Returns false where this message does not wait here.
  bool withdraw(const Connection& to, const TransferPtr& transfer);
  State flush(const Connection& to, std::size_t budget);
  bool empty() const { return !broken_ && queued_.empty() && streams_.empty() && !current_; }
  /// Returns true when nothing can be written any more. The reading side finds the reason.
  bool broken() const { return broken_; }
  /// Returns true where bytes were written since the last call.
  bool wrote() { return std::exchange(wrote_, false); }
  template <class Visit>
  void for_each(Visit&& visit) const {
    if (current_) visit(current_);
    for (const TransferPtr& each : streams_) visit(each);
  }
  /// Fails all waiting messages; nothing is written any more.
  template <class Fail>
  void give_up(Fail&& fail) {
    for_each([&](const TransferPtr& each) { fail(*each); });
    end();
  }

 private:
  /// Evaluates the result of a system call that sends: returns the bytes that the socket took, and notes what a failure means.
  std::size_t taken(ssize_t result);
  bool flush_queued(const Connection& to);
  void begin_frame();
  bool flush_frame(const Connection& to);
  void end_frame();
  FrameBytes sealed(const FrameHead& head, std::span<const std::byte> payload, std::span<const std::byte> more = {});
  /// Keeps a part of a frame, but for its first `skip` bytes, which become fewer.
  void queue(std::span<const std::byte> part, std::size_t& skip);
  void end();

  FrameCodes codes_;    ///< frames get them in the order in which they are sent
  std::string queued_;  ///< whole frames; the first `written_` bytes have been sent
  std::size_t written_ = 0;
  std::deque<TransferPtr> streams_;  ///< between two frames
  TransferPtr current_;              ///< its data frame is being written
  FrameBytes head_{};
  std::vector<std::byte> spare_;  ///< the rest of its frame, where its owner has given up
  std::size_t head_rest_ = 0, frame_rest_ = 0;
  bool broken_ = false, wrote_ = false;
};

}  // namespace unisono::transport
