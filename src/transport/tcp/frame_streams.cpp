#include "transport/tcp/frame_streams.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/bytes.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

template <class T>
void put(std::byte*& to, T value) {
  base::store_little_endian(value, to);
  to += sizeof(T);
}

template <class T>
T take(const std::byte*& from) {
  const T value = base::load_little_endian<T>(from);
  from += sizeof(T);
  return value;
}

struct Rule {
  std::string_view name;
  std::size_t shortest, longest;
  bool group, channel, id, total;  // the fields that it uses
};

constexpr Rule rules[] = {
    {"eager", 0, longest_eager, true, true, false, false},
    {"request", 0, 0, true, true, true, true},
    {"clear", 0, 0, false, false, true, false},
    {"data", 1, longest_data, false, false, true, false},
    {"withdrawn", 0, 0, false, false, true, false},
    {"refused", 0, 0, false, false, true, true},
    {"consumed", 0, 0, false, false, false, true},
    {"notice", 0, longest_notice, true, true, false, false},
    {"call", 0, longest_call, true, false, false, false},
    {"heartbeat", 0, 0, false, false, false, false},
    {"goodbye", 0, 0, false, false, false, false},
    {"spread", 0, longest_spread, true, false, false, false},
    {"gone", 0, longest_spread, false, false, false, false},
};

// Beside a large payload the buffer receives only the next head, since it is no place for the payload after that.
constexpr std::size_t beside_direct = 1024;

/// Bytes of small frames that go with a data frame in one system call. More of them go before it.
constexpr std::size_t most_before_data = 1024;

constexpr int send_flags = MSG_NOSIGNAL | MSG_DONTWAIT;

/// Spans of bytes as one message for sendmsg, which does not change them.
struct Parts {
  Parts(std::span<const std::byte> first, std::span<const std::byte> second, std::span<const std::byte> third = {})
      : parts{{const_cast<std::byte*>(first.data()), first.size()},
              {const_cast<std::byte*>(second.data()), second.size()},
              {const_cast<std::byte*>(third.data()), third.size()}} {
    message.msg_iov = parts;
    message.msg_iovlen = third.empty() ? 2 : 3;
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  iovec parts[3];  // NOLINT(modernize-use-default-member-init): it is made of the arguments
  msghdr message{};
};

}  // namespace

FrameBytes to_bytes(const FrameHead& head) {
  FrameBytes bytes{};
  std::byte* to = bytes.data();
  put(to, static_cast<std::uint32_t>(head.kind));
  put(to, head.length);
  put(to, head.group);
  put(to, head.channel);
  put(to, std::uint32_t{0});
  put(to, head.id);
  put(to, head.total);
  return bytes;
}

FrameHead to_head(const std::byte* bytes) {
  const auto kind = take<std::uint32_t>(bytes);
  FrameHead head;
  head.length = take<std::uint32_t>(bytes);
  head.group = take<std::uint64_t>(bytes);
  head.channel = take<std::uint32_t>(bytes);
  const auto zero = take<std::uint32_t>(bytes);
  head.id = take<std::uint64_t>(bytes);
  head.total = take<std::uint64_t>(bytes);
  if (kind < 1 || kind > std::size(rules)) throw ProtocolError(fmt::format("a frame of the unknown kind {}", kind));
  head.kind = static_cast<FrameKind>(kind);
  const Rule& rule = rules[kind - 1];
  if (head.length < rule.shortest || head.length > rule.longest) throw ProtocolError(fmt::format("a {} frame of {} bytes", rule.name, head.length));
  if (zero != 0 || (!rule.group && head.group != 0) || (!rule.channel && head.channel != 0) || (!rule.id && head.id != 0) ||
      (!rule.total && head.total != 0)) {
    throw ProtocolError(fmt::format("a {} frame with fields that it does not have", rule.name));
  }
  if (head.kind == FrameKind::notice && head.channel > head.length) throw ProtocolError("a notice with more data than bytes");
  return head;
}

FrameReader::FrameReader(std::string_view already, base::Secret key)
    : buffer_(std::make_unique_for_overwrite<std::byte[]>(buffer_size)), end_(std::min(already.size(), buffer_size)), codes_(std::move(key)) {
  std::memcpy(buffer_.get(), already.data(), end_);
}

void FrameReader::begin_frame(FrameSink& sink) {
  FrameBytes bytes;
  std::memcpy(bytes.data(), buffer_.get() + begin_, bytes.size());
  begin_ += bytes.size();
  hash_ = codes_.begin(bytes);
  code_ = base::load_little_endian<std::uint64_t>(bytes.data() + coded_head_size);
  head_ = to_head(bytes.data());
  covered_ = covered_bytes(head_);
  if (covered_ == 0) check_code();
  target_ = sink.begin(head_);
  rest_ = head_.length;
  in_payload_ = true;
}

void FrameReader::check_code() {
  if (hash_.finish() != code_) throw ProtocolError("a frame that was changed on the way");
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

std::size_t FrameWriter::taken(ssize_t result) {
  if (result < 0) {
    broken_ = errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != ENOMEM;
    return 0;
  }
  wrote_ = true;
  return static_cast<std::size_t>(result);
}

FrameBytes FrameWriter::sealed(const FrameHead& head, std::span<const std::byte> payload, std::span<const std::byte> more) {
  FrameBytes bytes = to_bytes(head);
  codes_.seal(bytes, head, payload, more);
  return bytes;
}

void FrameWriter::queue(std::span<const std::byte> part, std::size_t& skip) {
  const std::size_t skipped = std::min(skip, part.size());
  skip -= skipped;
  queued_.append(reinterpret_cast<const char*>(part.data()) + skipped, part.size() - skipped);
}

void FrameWriter::write(const Connection& to, const FrameHead& head, std::span<const std::byte> payload, std::span<const std::byte> more) {
  if (broken_) return;
  std::size_t sent = 0;
  const FrameBytes bytes = sealed(head, payload, more);
  if (queued_.empty() && !current_) {
    const Parts frame(bytes, payload, more);
    // A small call goes this way, so the system call is made here and not in another function.
    sent = taken(to.tls == nullptr ? TEMP_FAILURE_RETRY(::sendmsg(to.fd, &frame.message, send_flags)) : to.send(frame.message));
  }
  if (broken_) return;
  for (const std::span<const std::byte> part : {std::span<const std::byte>(bytes), payload, more}) queue(part, sent);
}

void FrameWriter::keep(const FrameHead& head) {
  std::size_t nothing = 0;
  if (!broken_) queue(sealed(head, {}), nothing);
}

void FrameWriter::stream(const TransferPtr& transfer) {
  if (!broken_ && transfer != current_ && std::find(streams_.begin(), streams_.end(), transfer) == streams_.end()) streams_.push_back(transfer);
}

bool FrameWriter::withdraw(const Connection& to, const TransferPtr& transfer) {
  if (transfer == current_) {
    // The frame that has begun is completed from a copy, without its owner's memory. If it is the last one, its message is complete; otherwise the
    // peer is told afterwards.
    if (current_->data == nullptr) return true;  // it was withdrawn before
    spare_.assign(current_->data, current_->data + frame_rest_);
    current_->data = nullptr;
    return true;
  }
  const auto found = std::find(streams_.begin(), streams_.end(), transfer);
  if (found == streams_.end()) return false;
  streams_.erase(found);
  write(to, {.kind = FrameKind::withdrawn, .id = transfer->id});
  return true;
}

bool FrameWriter::flush_queued(const Connection& to) {
  const auto rest = std::as_bytes(std::span(queued_)).subspan(written_);
  const std::size_t sent = taken(TEMP_FAILURE_RETRY(to.send(Parts(rest, {}).message)));
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
  frame_rest_ = std::min(current_->may_move - current_->moved, longest_data);
  const FrameBytes head = sealed({.kind = FrameKind::data, .length = static_cast<std::uint32_t>(frame_rest_), .id = current_->id}, {});
  head_.assign(queued_, written_);
  head_.append(reinterpret_cast<const char*>(head.data()), head.size());
  head_rest_ = head_.size();
  queued_.clear();
  written_ = 0;
}

bool FrameWriter::flush_frame(const Connection& to) {
  const auto head = std::as_bytes(std::span(head_)).last(head_rest_);
  const bool real = current_->data != nullptr;
  const std::byte* const payload = real ? current_->data : spare_.data() + (spare_.size() - frame_rest_);
  const Parts frame(head, {payload, frame_rest_});
  const std::size_t sent = taken(TEMP_FAILURE_RETRY(to.send(frame.message)));
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
    std::size_t nothing = 0;
    queue(sealed({.kind = FrameKind::withdrawn, .id = transfer->id}, {}), nothing);
  } else if (transfer->rest() == 0) {
    transfer->finish();
  } else if (transfer->moved < transfer->may_move) {
    streams_.push_back(transfer);
  }
}

FrameWriter::State FrameWriter::flush(const Connection& to, std::size_t budget) {
  for (std::size_t spent = 0; !broken_; spent += longest_data) {
    if (empty()) return State::empty;
    if (spent >= budget) return State::unfinished;
    if (!current_ && !streams_.empty() && queued_.size() - written_ <= most_before_data) begin_frame();
    const bool all = current_ ? flush_frame(to) : flush_queued(to);
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
