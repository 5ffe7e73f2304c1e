#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "transport/tcp/connecting.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/frame_streams.h"

namespace unisono::transport {

/// The connection with one rank, or the place of one that is not made yet: sends and receives frames without waiting.
class PeerConnection {
 public:
  /// `address`: where the rank listens.
  PeerConnection(int rank, std::string address) : rank_(rank), address_(std::move(address)) {}
  void open(Established established);
  void close();
  bool is_open() const { return fd_.valid(); }

  int rank() const { return rank_; }
  int fd() const { return fd_.get(); }
  /// Returns the address of the connection, or that at which the rank listens before there is one.
  const std::string& address() const { return address_; }
  std::string name() const;  ///< "rank 3 (10.0.0.2:41234)"

  void write(const FrameHead& head, std::span<const std::byte> payload = {}, std::span<const std::byte> more = {}) {
    writer_.write(socket(), head, payload, more);
  }
  FrameWriter& writer() { return writer_; }
  Connection socket() const { return {fd_.get(), tls_.get()}; }
  /// Removes a message whose sender has given up from those that are being written. Returns false where it is none of them.
  bool withdraw(const TransferPtr& transfer) { return writer_.withdraw(socket(), transfer); }
  /// Writes what waits. Returns true where a sender may go on.
  bool flush();
  /// Sends a heartbeat where nothing else was sent since the last one.
  void send_heartbeat();
  /// Called after a goodbye: nothing more will be written. Returns true once the peer's system has everything.
  bool has_delivered();
  bool is_writing() const { return !writer_.empty() || (tls_ && tls_->has_unsent()); }
  bool wants_to_write() const { return is_open() && is_writing() && !writer_.broken(); }

  FrameReader::Received receive(FrameSink& sink);
  /// Returns true where bytes have been read that the next `receive` handles.
  bool has_unread() const { return is_open() && (reader_.is_paused() || socket().has_unread()); }
  /// Describes the end of a connection whose peer has not said goodbye.
  std::string text_of_end(const FrameReader::Received& received) const;

 private:
  const int rank_;
  std::string address_;
  base::FileDescriptor fd_{};
  std::unique_ptr<base::TlsConnection> tls_{};  ///< null: the connection is not encrypted
  FrameReader reader_{};
  FrameWriter writer_{};
  bool is_shut_ = false;
};

}  // namespace unisono::transport
