#include "transport/tcp/frame_writer.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace unisono::transport {
namespace {

constexpr int send_flags = MSG_NOSIGNAL | MSG_DONTWAIT;

/// Two spans of bytes as one message for sendmsg, which does not change them.
struct TwoParts {
  TwoParts(std::span<const std::byte> first, std::span<const std::byte> second)
      : parts{{const_cast<std::byte*>(first.data()), first.size()}, {const_cast<std::byte*>(second.data()), second.size()}} {
    message.msg_iov = parts;
    message.msg_iovlen = 2;
  }
  TwoParts(const TwoParts&) = delete;
  TwoParts& operator=(const TwoParts&) = delete;

  iovec parts[2];  // NOLINT(modernize-use-default-member-init): it is made of the arguments
  msghdr message{};
};

}  // namespace

std::size_t FrameWriter::taken(ssize_t result) {
  if (result < 0) {
    broken_ = errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != ENOMEM;
    return 0;
  }
  wrote_ = true;
  return static_cast<std::size_t>(result);
}

void FrameWriter::queue(const FrameHead& head, std::span<const std::byte> payload, std::size_t skip) {
  const FrameBytes bytes = to_bytes(head);
  if (skip < bytes.size()) queued_.append(reinterpret_cast<const char*>(bytes.data()) + skip, bytes.size() - skip);
  const std::size_t rest = skip > bytes.size() ? skip - bytes.size() : 0;
  if (rest < payload.size()) queued_.append(reinterpret_cast<const char*>(payload.data()) + rest, payload.size() - rest);
}

void FrameWriter::write(int fd, const FrameHead& head, std::span<const std::byte> payload) {
  if (broken_) return;
  std::size_t sent = 0;
  if (queued_.empty() && !current_) {
    const FrameBytes bytes = to_bytes(head);
    const TwoParts frame(bytes, payload);
    sent = taken(TEMP_FAILURE_RETRY(::sendmsg(fd, &frame.message, send_flags)));
  }
  if (!broken_) queue(head, payload, sent);
}

void FrameWriter::stream(const TransferPtr& transfer) {
  if (!broken_) streams_.push_back(transfer);
}

bool FrameWriter::withdraw(int fd, const TransferPtr& transfer) {
  if (transfer == current_) {
    // The frame that has begun is completed from a copy, without its owner's memory. If it is the last one, its message is complete; otherwise the
    // peer is told afterwards.
    spare_.assign(current_->data, current_->data + frame_rest_);
    current_->data = nullptr;
    return true;
  }
  const auto found = std::find(streams_.begin(), streams_.end(), transfer);
  if (found == streams_.end()) return false;
  streams_.erase(found);
  write(fd, {.kind = FrameKind::withdrawn, .id = transfer->id});
  return true;
}

bool FrameWriter::flush_queued(int fd) {
  const auto rest = std::as_bytes(std::span(queued_)).subspan(written_);
  const std::size_t sent = taken(TEMP_FAILURE_RETRY(::send(fd, rest.data(), rest.size(), send_flags)));
  const bool all = sent == rest.size();
  written_ += sent;
  if (written_ == queued_.size()) {
    queued_.clear();
    if (queued_.capacity() > longest_data) queued_.shrink_to_fit();
    written_ = 0;
  } else if (written_ > longest_data) {
    queued_.erase(0, written_);
    written_ = 0;
  }
  return all;
}

void FrameWriter::begin_frame() {
  current_ = std::move(streams_.front());
  streams_.pop_front();
  frame_rest_ = std::min(current_->rest(), longest_data);
  head_ = to_bytes({.kind = FrameKind::data, .length = static_cast<std::uint32_t>(frame_rest_), .id = current_->id});
  head_rest_ = head_.size();
}

bool FrameWriter::flush_frame(int fd) {
  const auto head = std::span<const std::byte>(head_).last(head_rest_);
  const bool real = current_->data != nullptr;
  const std::byte* const payload = real ? current_->data : spare_.data() + (spare_.size() - frame_rest_);
  const TwoParts frame(head, {payload, frame_rest_});
  const std::size_t sent = taken(TEMP_FAILURE_RETRY(::sendmsg(fd, &frame.message, send_flags)));
  const bool all = sent == head_rest_ + frame_rest_;
  const std::size_t of_head = std::min(sent, head_rest_);
  head_rest_ -= of_head;
  frame_rest_ -= sent - of_head;
  if (real) {
    current_->data += sent - of_head;
    current_->moved += sent - of_head;
  }
  if (head_rest_ == 0 && frame_rest_ == 0) end_frame();
  return all;
}

void FrameWriter::end_frame() {
  const TransferPtr transfer = std::move(current_);
  if (transfer->data == nullptr) {
    queue({.kind = FrameKind::withdrawn, .id = transfer->id}, {}, 0);
  } else if (transfer->rest() == 0) {
    transfer->finish();
  } else {
    streams_.push_back(transfer);
  }
}

FrameWriter::State FrameWriter::flush(int fd, std::size_t budget) {
  for (std::size_t spent = 0; !broken_; spent += longest_data) {
    if (empty()) return State::empty;
    if (spent >= budget) return State::unfinished;
    if (!current_ && queued_.empty()) begin_frame();
    const bool all = current_ ? flush_frame(fd) : flush_queued(fd);
    if (!all) break;
  }
  return broken_ ? State::broken : empty() ? State::empty : State::blocked;
}

void FrameWriter::end() {
  broken_ = true;
  queued_.clear();
  streams_.clear();
  current_.reset();
}

}  // namespace unisono::transport
