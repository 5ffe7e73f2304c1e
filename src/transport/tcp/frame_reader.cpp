#include "transport/tcp/frame_reader.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "unisono/error.h"

namespace unisono::transport {
namespace {

// Beside a large payload the buffer receives only the next head, since it is no place for the payload after that.
constexpr std::size_t beside_direct = 1024;

}  // namespace

FrameReader::FrameReader(std::string_view already, base::Secret key)
    : buffer_(std::make_unique<std::byte[]>(buffer_size)), end_(std::min(already.size(), buffer_size)), codes_(std::move(key)) {
  std::memcpy(buffer_.get(), already.data(), end_);
}

void FrameReader::begin_frame(FrameSink& sink) {
  FrameBytes bytes;
  std::memcpy(bytes.data(), buffer_.get() + begin_, bytes.size());
  begin_ += bytes.size();
  hash_ = codes_.begin(bytes);
  code_ = base::load_little_endian<std::uint64_t>(bytes.data() + coded_head_size);
  head_ = to_head(bytes.data());
  covered_ = covered_bytes(head_.kind, head_.length);
  if (covered_ == 0) check_code();
  target_ = sink.begin(head_);
  rest_ = head_.length;
  in_payload_ = true;
}

void FrameReader::check_code() {
  if (hash_.finish() != code_) throw ProtocolError("a frame that its sender has not sent so");
}

void FrameReader::advance(std::size_t n) {
  if (const std::size_t covered = std::min(n, covered_); covered != 0) {
    hash_.bytes({target(), covered});
    covered_ -= covered;
    if (covered_ == 0) check_code();
  }
  if (target_.transfer && target_.transfer->data != nullptr) target_.transfer->data += n;
  if (target_.transfer) target_.transfer->moved += n;
  if (target_.memory != nullptr) target_.memory += n;
  rest_ -= n;
}

void FrameReader::parse(FrameSink& sink) {
  is_paused_ = false;
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
      if (sink.pauses() && begin_ != end_) {
        is_paused_ = true;
        return;
      }
    } else {
      if (end_ - begin_ < frame_head_size) break;
      begin_frame(sink);
    }
  }
  if (begin_ != 0) std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

FrameReader::Received FrameReader::receive(const Connection& connection, FrameSink& sink, std::size_t budget) {
  Received received;
  parse(sink);
  while (!is_paused_) {
    // Behind the budget only what TLS has read already is taken: the socket itself tells of what is left in it, and of nothing else.
    const bool is_behind = received.bytes >= budget;
    if (is_behind && !connection.has_unread()) break;
    // The buffer is empty inside a payload: all of it has been passed on.
    std::byte* const to = in_payload_ && rest_ >= direct_size ? target() : nullptr;
    const bool head_first = to == nullptr && !in_payload_ && end_ < frame_head_size && sink.expects_much();
    const std::size_t beside = to != nullptr ? beside_direct : head_first ? frame_head_size - end_ : buffer_size - end_;
    iovec parts[2] = {{to, to != nullptr ? rest_ : 0}, {buffer_.get() + end_, beside}};
    msghdr message{};
    message.msg_iov = to != nullptr ? parts : parts + 1;
    message.msg_iovlen = to != nullptr ? 2 : 1;
    const std::size_t wanted = parts[0].iov_len + beside;
    const ssize_t n = is_behind ? connection.receive_ahead(message) : connection.receive(message);
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
    if (got < wanted && !connection.has_unread()) break;  // everything was read
  }
  return received;
}

}  // namespace unisono::transport
