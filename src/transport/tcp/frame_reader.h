#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "transport/tcp/frame.h"
#include "transport/tcp/transfer.h"

namespace unisono::transport {

/// Where the bytes of a frame go: into a transfer's memory, to `memory`, or nowhere.
struct Target {
  TransferPtr transfer;
  std::byte* memory = nullptr;
};

/// What understands frames. Both may throw ProtocolError; nothing more is read then.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  virtual Target begin(const FrameHead& head) = 0;
  virtual void finish(const FrameHead& head) = 0;
};

/// Takes what arrives on one connection apart. A large message is received where it belongs; what is small is read in one go with what follows it.
class FrameReader {
 public:
  /// `already` arrived with the handshake.
  explicit FrameReader(std::string_view already);

  struct Received {
    std::size_t bytes = 0;
    bool ended = false;  ///< nothing more will come
    int error = 0;       ///< why, where it was no orderly end
  };
  /// Reads what is there, a bit more than `budget` at most.
  Received receive(int fd, FrameSink& sink, std::size_t budget);
  /// In the middle of a frame: an end would be a break.
  bool inside_frame() const { return end_ != begin_ || rest_ != 0; }

 private:
  void parse(FrameSink& sink);
  void store(std::size_t n);
  std::byte* target() const { return target_.transfer ? target_.transfer->data : target_.memory; }
  void advance(std::size_t n);

  static constexpr std::size_t buffer_size = std::size_t{64} << 10;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0, end_ = 0;  ///< of what is in the buffer
  FrameHead head_;                   ///< of the frame whose payload is coming
  Target target_;
  std::size_t rest_ = 0;
  bool in_payload_ = false;
};

}  // namespace unisono::transport
