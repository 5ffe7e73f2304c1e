#include "transport/tcp/frame_reader.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace unisono::transport {
namespace {

// Beside a large payload the buffer receives only the next head, since it is no place for the payload after that.
constexpr std::size_t direct_size = std::size_t{16} << 10;
constexpr std::size_t beside_direct = 1024;

}  // namespace

FrameReader::FrameReader(std::string_view already)
    : buffer_(std::make_unique<std::byte[]>(buffer_size)), end_(std::min(already.size(), buffer_size)) {
  std::memcpy(buffer_.get(), already.data(), end_);
}

void FrameReader::advance(std::size_t n) {
  if (target_.transfer && target_.transfer->data != nullptr) target_.transfer->data += n;
  if (target_.transfer) target_.transfer->moved += n;
  if (target_.memory != nullptr) target_.memory += n;
  rest_ -= n;
}

void FrameReader::parse(FrameSink& sink) {
  for (;;) {
    if (in_payload_) {
      const std::size_t n = std::min(rest_, end_ - begin_);
      if (std::byte* to = target(); to != nullptr && n != 0) std::memcpy(to, buffer_.get() + begin_, n);
      advance(n);
      begin_ += n;
      if (rest_ != 0) break;
      in_payload_ = false;
      target_ = {};
      sink.finish(head_);
    } else {
      if (end_ - begin_ < frame_head_size) break;
      head_ = to_head(buffer_.get() + begin_);
      begin_ += frame_head_size;
      target_ = sink.begin(head_);
      rest_ = head_.length;
      in_payload_ = true;
    }
  }
  if (begin_ != 0) std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

FrameReader::Received FrameReader::receive(int fd, FrameSink& sink, std::size_t budget) {
  Received received;
  parse(sink);
  while (received.bytes < budget) {
    // The buffer is empty inside a payload: all of it has been passed on.
    std::byte* const to = in_payload_ && rest_ >= direct_size ? target() : nullptr;
    const std::size_t beside = to != nullptr ? beside_direct : buffer_size - end_;
    iovec parts[2] = {{to, to != nullptr ? rest_ : 0}, {buffer_.get() + end_, beside}};
    msghdr message{};
    message.msg_iov = to != nullptr ? parts : parts + 1;
    message.msg_iovlen = to != nullptr ? 2 : 1;
    const std::size_t wanted = parts[0].iov_len + beside;
    const ssize_t n = ::recvmsg(fd, &message, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) {
      received.ended = true;
      received.error = n < 0 ? errno : 0;
      break;
    }
    const auto got = static_cast<std::size_t>(n);
    received.bytes += got;
    if (to != nullptr) {
      const std::size_t straight = std::min(got, rest_);
      advance(straight);
      end_ += got - straight;
    } else {
      end_ += got;
    }
    parse(sink);
    if (got < wanted) break;  // everything was read
  }
  return received;
}

}  // namespace unisono::transport
