#include "transport/tcp/peer_connection.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/socket.h"

namespace unisono::transport {
namespace {

/// Bytes read, and bytes written, before other peers have their turn; a write may be larger (FrameWriter). Ranks that share processors then hand the
/// bytes on while they are still in the cache: with 256 KiB, 16 MiB among 8 ranks on two cores took 10 to 25 % longer.
constexpr std::size_t most_at_once = std::size_t{64} << 10;

std::string numeric_address(int fd) {
  try {
    return base::describe(base::peer_address(fd));
  } catch (const Error&) {  // it is gone already, as the first read will show
    return "an address that is gone";
  }
}

}  // namespace

void PeerConnection::open(Established established) {
  address_ = numeric_address(established.fd.get());
  fd_ = std::move(established.fd);
  tls_ = std::move(established.tls);
  reader_ = FrameReader(established.already, established.keys.receiving);
  writer_ = FrameWriter(established.keys.sending);
}

// Shuts the socket down first: a child of fork may have it as well, and closing this descriptor alone would end nothing.
void PeerConnection::close() {
  ::shutdown(fd(), SHUT_RDWR);
  fd_.reset();
}

std::string PeerConnection::name() const { return fmt::format("rank {} ({})", rank_, address_); }

bool PeerConnection::flush() {
  if (writer_.empty()) return is_writing() && tls_->flush() && !is_writing();
  return writer_.flush(socket(), most_at_once) != FrameWriter::State::blocked;
}

void PeerConnection::send_heartbeat() {
  if (writer_.wrote() || is_writing()) return;
  write({.kind = FrameKind::heartbeat});
  writer_.wrote();
}

bool PeerConnection::has_delivered() {
  if (!is_open() || writer_.broken()) return true;
  if (tls_ && writer_.empty()) tls_->close();
  if (is_writing()) return false;
  if (!std::exchange(is_shut_, true)) ::shutdown(fd(), SHUT_WR);
  int unsent = 0;
  return ::ioctl(fd(), SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

FrameReader::Received PeerConnection::receive(FrameSink& sink) { return reader_.receive(socket(), sink, most_at_once); }

std::string PeerConnection::text_of_end(const FrameReader::Received& received) const {
  if (received.error == 0 || received.error == EPIPE) return fmt::format("the connection to {} ended without a goodbye", name());
  if (tls_ && !tls_->error().empty()) {
    return fmt::format("the connection to {} broke: what came does not belong there ({})", name(), tls_->error());
  }
  if (received.error == ECONNRESET) return fmt::format("the connection to {} was reset", name());
  return fmt::format("the connection to {} broke: {}", name(), base::error_text(received.error));
}

}  // namespace unisono::transport
