#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

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
};

/// Splits the bytes of a connection into frames. A large message is received directly into its destination; small ones are read together.
class FrameReader {
 public:
  /// `already` arrived with the handshake.
  explicit FrameReader(std::string_view already);

  struct Received {
    std::size_t bytes = 0;
    bool ended = false;  ///< nothing more will come
    int error = 0;       ///< the errno, where it was no orderly end
  };
  /// Reads the available bytes, slightly more than `budget` at most.
  Received receive(int fd, FrameSink& sink, std::size_t budget);

 private:
  void parse(FrameSink& sink);
  void store(std::size_t n);
  std::byte* target() const { return target_.transfer ? target_.transfer->data : target_.memory; }
  void advance(std::size_t n);

  static constexpr std::size_t buffer_size = std::size_t{64} << 10;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0, end_ = 0;  ///< of the bytes in the buffer
  FrameHead head_;                   ///< of the frame whose payload is being received
  Target target_;
  std::size_t rest_ = 0;
  bool in_payload_ = false;
};

}  // namespace unisono::transport
