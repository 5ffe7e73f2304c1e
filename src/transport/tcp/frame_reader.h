#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "transport/tcp/connection.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/frame_codes.h"
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

}  // namespace unisono::transport
