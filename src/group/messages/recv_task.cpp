#include "group/messages/recv_task.h"

#include <algorithm>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::group {
namespace {

std::string elements(std::uint64_t bytes, DType dtype) {
  return fmt::format("{} × {}", to_string(dtype), bytes / std::max<std::size_t>(size_of(dtype), 1));
}

}  // namespace

void RecvTask::post(MessageMatcher& matcher, const engines::MessageCall& call) {
  matcher_ = &matcher;
  want(call.peer, call.tag);
  state_ = State::begun;
  dtype_ = call.data.dtype();
  kind_ = engines::kind_of(call);
  to_ = static_cast<std::byte*>(call.data.data());
  bytes_ = call.data.bytes();
  source_ = -1;
  delivery_.is_done = false;
  delivery_.task.reset();
  sequence_ = call.sequence;
  label_ = call.label;
  matcher.post(*this);
}

void RecvTask::withdraw() noexcept {
  if (is_reported()) matcher_->forget(*this);
  if (is_posted()) {
    matcher_->unpost(*this);
  } else if (state_ == State::taken && !delivery_.is_done) {
    const auto& [carrier, peer] = matcher_->route_of(source_);
    if (carrier->withdraw(peer, message_.ticket, delivery_)) matcher_->give(source_, message_);
  }
  state_ = State::begun;
}

bool RecvTask::advance() {
  if (state_ == State::over) return true;
  if (is_posted()) {
    matcher_->look_for(*this);
    if (is_posted()) return false;
  }
  if (!delivery_.is_done) {
    const auto& [carrier, peer] = matcher_->route_of(source_);
    carrier->advance(peer, delivery_);
    if (!delivery_.is_done) return false;
  }
  state_ = State::over;
  if (is_wrong()) throw_mismatch();
  return true;
}

std::vector<int> RecvTask::waiting_for() const {
  if (state_ == State::over) return {};
  if (source_ >= 0) return {source_};
  return matcher_->possible_sources(peer());
}

bool RecvTask::cancel() {
  if (!is_posted()) return false;
  withdraw();
  message_ = {};  // of an earlier use
  return true;
}

std::string RecvTask::remark() const {
  if (!is_posted()) return {};
  const auto stray = matcher_->unclaimed(peer());
  if (!stray) return {};
  const auto& [source, header] = *stray;
  return fmt::format("rank {} has sent it a message with tag {} ({}), which no receive has asked for", source, header.tag,
                     elements(header.bytes, engines::dtype_of_kind(header.kind)));
}

void RecvTask::take(int source, const engines::AnnouncedMessage& message) {
  state_ = State::taken;
  source_ = source;
  message_ = message;
  delivery_.to = is_wrong() ? nullptr : to_;
  const auto& [carrier, peer] = matcher_->route_of(source);
  carrier->deliver(peer, message.ticket, message.header, delivery_);
}

void RecvTask::throw_mismatch() const {
  const bool is_other_call = message_.header.kind != kind_ && ((message_.header.kind | kind_) & engines::labelled_kind) != 0;
  throw Mismatch(fmt::format("rank {} sent {}, but the receive is of {}{}", source_,
                             elements(message_.header.bytes, engines::dtype_of_kind(message_.header.kind)), elements(bytes_, dtype_),
                             is_other_call ? ", and by another kind of call" : ""),
                 {.operation = label_.empty() ? "recv" : std::string(label_),
                  .sequence = sequence_,
                  .rank = matcher_->rank(),
                  .culprit = source_,
                  .hint = "the message is gone, the group stays usable"});
}

}  // namespace unisono::group
