#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "transport/tcp/frame.h"
#include "transport/tcp/transfer.h"

namespace unisono::transport {

/// The destination of a frame's bytes: a transfer's memory, `memory`, or none.
struct Target {
  TransferPtr transfer;
  std::byte* memory = nullptr;
};

/// Handles the frames of a connection. Both functions may throw ProtocolError; nothing more is read then.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  virtual Target begin(const FrameHead& head) = 0;
  virtual void finish(const FrameHead& head) = 0;
  /// Tells whether the next frame is likely to have a large payload whose destination is known: then only its head is read first.
  virtual bool expects_much() const = 0;
  /// Tells, once, whether what follows the last frame should wait until the next `receive`.
  virtual bool pauses() = 0;
};

/// Splits the bytes of a connection into frames. A large message is received directly into its destination; small ones are read together.
class FrameReader {
 public:
  FrameReader() = default;  ///< of no connection
  /// `already` arrived with the handshake. `key`: of the codes of the frames.
  FrameReader(std::string_view already, base::Secret key);

  struct Received {
    std::size_t bytes = 0;
    bool ended = false;  ///< nothing more will come
    int error = 0;       ///< the errno, where it was no orderly end
  };
  /// Reads the available bytes, slightly more than `budget` at most.
  Received receive(const Connection& connection, FrameSink& sink, std::size_t budget);
  /// Returns true where bytes have been read that wait for the next `receive`.
  bool is_paused() const { return is_paused_; }

  /// A payload of at least so many bytes is received into its destination.
  static constexpr std::size_t direct_size = std::size_t{16} << 10;

 private:
  void parse(FrameSink& sink);
  void begin_frame(FrameSink& sink);
  void check_code();
  std::byte* target() const { return target_.transfer ? target_.transfer->data : target_.memory; }
  void advance(std::size_t n);

  static constexpr std::size_t buffer_size = std::size_t{64} << 10;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0, end_ = 0;  ///< of the bytes in the buffer
  FrameHead head_;                   ///< of the frame whose payload is being received
  FrameCodes codes_;
  base::SipHash hash_{{}};   ///< of that frame, as far as it is covered and has come
  std::uint64_t code_ = 0;   ///< what it must come to
  std::size_t covered_ = 0;  ///< bytes of the payload that it covers and that have not come
  Target target_;
  std::size_t rest_ = 0;
  bool in_payload_ = false;
  bool is_paused_ = false;
};

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
  /// Keeps a frame without a payload, which goes with the next bytes.
  void keep(const FrameHead& head);
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
  std::string head_;                 ///< what goes before its bytes: small frames, and its own head
  std::vector<std::byte> spare_;     ///< the rest of its frame, where its owner has given up
  std::size_t head_rest_ = 0, frame_rest_ = 0;
  bool broken_ = false, wrote_ = false;
};

}  // namespace unisono::transport
