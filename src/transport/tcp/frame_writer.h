#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <utility>

#include "transport/tcp/frame.h"
#include "transport/tcp/transfer.h"

namespace unisono::transport {

/// What waits to be written to one connection. Small frames keep their order and go first; large messages go straight from the sender's memory, in
/// turns of one data frame each, so that none waits for another's end.
class FrameWriter {
 public:
  enum class State { empty, blocked, unfinished, broken };  ///< unfinished: the budget was used up, the socket would take more

  /// Writes a frame if nothing waits, and keeps what the socket does not take.
  void write(int fd, const FrameHead& head, std::span<const std::byte> payload = {});
  /// A message that the peer has cleared; its transfer finishes when the last byte is written.
  void stream(const TransferPtr& transfer);
  /// The sender has given up, and its memory with it. False: this message does not wait here.
  bool withdraw(int fd, const TransferPtr& transfer);
  State flush(int fd, std::size_t budget);
  bool empty() const { return !broken_ && queued_.empty() && streams_.empty() && !current_; }
  /// True when it takes nothing any more: the reading side finds out why.
  bool broken() const { return broken_; }
  /// Whether bytes were written since this was last asked.
  bool wrote() { return std::exchange(wrote_, false); }
  template <class Visit>
  void for_each(Visit&& visit) const {
    if (current_) visit(current_);
    for (const TransferPtr& each : streams_) visit(each);
  }
  /// Fails what waits; nothing is written any more.
  template <class Fail>
  void give_up(Fail&& fail) {
    for_each([&](const TransferPtr& each) { fail(*each); });
    end();
  }

 private:
  bool send(int fd, std::span<const std::byte> first, std::span<const std::byte> second, std::size_t& sent);
  bool flush_queued(int fd);
  void begin_frame();
  bool flush_frame(int fd);
  void end_frame();
  void queue(const FrameHead& head, std::span<const std::byte> payload, std::size_t skip);
  void end();

  std::string queued_;  ///< whole frames, but for the first `written_` bytes
  std::size_t written_ = 0;
  std::deque<TransferPtr> streams_;  ///< cleared, between two frames
  TransferPtr current_;              ///< whose data frame is being written
  FrameBytes head_{};
  std::vector<std::byte> spare_;  ///< the rest of its frame, where its owner has given up
  std::size_t head_rest_ = 0, frame_rest_ = 0;
  bool broken_ = false, wrote_ = false;
};

}  // namespace unisono::transport
