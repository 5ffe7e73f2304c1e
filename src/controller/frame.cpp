#include "controller/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <span>
#include <utility>

#include "base/deadline.h"
#include "group/progress/work_state.h"
#include "recorder/recorder.h"
#include "unisono/detail/object_stream.h"
#include "unisono/detail/request.h"
#include "unisono/error.h"

namespace unisono {

namespace controller {
namespace {

using Piece = std::span<const std::byte>;

/// Either side may take as long as the program likes. A peer that is gone ends the wait.
CallOptions for_as_long_as_it_takes() { return {.timeout = base::longest_timeout, .where = {}}; }

detail::MessageRequest message(Operation operation, const void* data, std::size_t bytes, int peer) {
  return {.operation = operation,
          .data = TensorView(const_cast<void*>(data), DType::uint8, bytes),
          .peer = Rank(peer),
          .label = recorder::controller_label};
}

Piece head_to_seal(const Head& head) { return {reinterpret_cast<const std::byte*>(&head), sizeof head - sizeof head.of_head}; }

detail::FramePart made(const detail::PartMemory& memory, const PartHead& part) {
  if (!memory) return detail::part_memory(part.slot, part.bytes);
  detail::FramePart own = memory(part.slot, part.bytes);
  if (own.bytes == part.bytes) return own;
  throw InvalidArgument(fmt::format("the memory for part {} has {} bytes instead of {}", part.slot, own.bytes, part.bytes));
}

std::vector<Piece> pieces_of(Piece content, const std::vector<detail::FramePart>& parts) {
  std::vector<Piece> pieces{content};
  for (const auto& part : parts) pieces.emplace_back(part.data, part.bytes);
  return pieces;
}

}  // namespace

std::size_t bytes_of(const detail::Frame& frame) {
  std::size_t bytes = frame.body.size();
  for (const auto& part : frame.parts) bytes += part.bytes;
  return bytes;
}

void check_limit(const detail::Frame& frame, std::string_view what) {
  const std::size_t bytes = bytes_of(frame), limit = object_limits().bytes;
  if (bytes <= limit) return;
  throw InvalidArgument(fmt::format("{} {} bytes, and the limit is {}", what, bytes, limit), {.hint = "raise the limit with set_object_limits"});
}

FrameLink::FrameLink(ProcessGroup pair)
    : pair_(std::move(pair)),
      peer_(1 - pair_.rank()),
      sending_(detail::ObjectSeal::of_message(pair_.rank(), peer_, 0, pair_)),
      receiving_(detail::ObjectSeal::of_message(peer_, pair_.rank(), 0, pair_)) {}

void FrameLink::start_send(const void* data, std::size_t bytes, std::shared_ptr<void> owner) {
  if (bytes == 0) return;
  Work work = detail::start(message(Operation::send, data, bytes, peer_), pair_, for_as_long_as_it_takes());
  if (detail::WorkAccess::state_of(work) != nullptr) outgoing_.push_back({std::move(work), std::move(owner)});
}

void FrameLink::sweep() {
  while (!outgoing_.empty() && outgoing_.front().work.is_completed()) outgoing_.pop_front();
}

void FrameLink::seal(Head& head, Piece content, const std::vector<detail::FramePart>& parts) const {
  if (!sending_.is_needed()) return;
  head.number = sending_.take_number();
  head.of_rest = sending_.code(head.number, detail::ObjectSeal::body, pieces_of(content, parts));
  head.of_head = sending_.code(head.number, detail::ObjectSeal::head, head_to_seal(head));
}

void FrameLink::check(const Head& head) const {
  if (!receiving_.is_needed()) return;
  receiving_.check(peer_, head.number, detail::ObjectSeal::head, head_to_seal(head), head.of_head);
  receiving_.check_number(peer_, head.number);
}

void FrameLink::check_rest(const Head& head, Piece content, const std::vector<detail::FramePart>& parts) const {
  if (!receiving_.is_needed()) return;
  receiving_.check(peer_, head.number, detail::ObjectSeal::body, pieces_of(content, parts), head.of_rest);
}

void FrameLink::send(const Head& about, detail::Frame&& frame) {
  sweep();
  const auto head = std::make_shared<Head>(about);
  head->parts = static_cast<std::uint32_t>(frame.parts.size());
  head->content = frame.body.size() + frame.parts.size() * sizeof(PartHead);
  std::shared_ptr<std::vector<std::byte>> content;
  Piece bytes = frame.body;
  if (!frame.parts.empty()) {
    content = std::make_shared<std::vector<std::byte>>(head->content);
    std::byte* to = content->data();
    for (const auto& part : frame.parts) {
      const PartHead of_part{.bytes = part.bytes, .slot = part.slot};
      to = std::copy_n(reinterpret_cast<const std::byte*>(&of_part), sizeof of_part, to);
    }
    std::ranges::copy(frame.body, to);
    bytes = *content;
  }
  if (bytes.size() <= Head::room) {
    std::ranges::copy(bytes, head->inside.begin());
  } else {
    head->has_content = 1;
    if (!content) {
      content = std::make_shared<std::vector<std::byte>>(std::move(frame.body));
      bytes = *content;
    }
  }
  seal(*head, bytes, frame.parts);
  start_send(head.get(), sizeof *head, head);
  if (head->has_content != 0) start_send(bytes.data(), bytes.size(), content);
  for (auto& part : frame.parts) start_send(part.data, part.bytes, std::move(part.owner));
}

Work FrameLink::start_receive(Head& head) {
  return detail::start(message(Operation::recv, &head, sizeof head, peer_), pair_, for_as_long_as_it_takes());
}

void FrameLink::receive(Head& head) {
  receive_bytes(&head, sizeof head);
  check(head);
}

bool FrameLink::has_come() {
  sweep();
  return detail::probe(message(Operation::recv, nullptr, 0, peer_), pair_, for_as_long_as_it_takes(), false).has_value();
}

void FrameLink::receive_bytes(void* data, std::size_t bytes) {
  if (bytes > 0) detail::run(message(Operation::recv, data, bytes, peer_), pair_, for_as_long_as_it_takes());
}

/// A receive of another length throws the message away.
void FrameLink::discard() {
  try {
    detail::run(message(Operation::recv, nullptr, 0, peer_), pair_, for_as_long_as_it_takes());
  } catch (const Mismatch&) {  // NOLINT(bugprone-empty-catch): that is its length
  }
}

detail::Frame FrameLink::receive_rest(const Head& head, const detail::PartMemory& memory) {
  detail::Frame frame;
  std::vector<std::byte> content(head.content);
  if (head.has_content != 0) receive_bytes(content.data(), content.size());
  else std::copy_n(head.inside.begin(), std::min<std::size_t>(content.size(), Head::room), content.begin());
  if (head.parts == 0) {
    check_rest(head, content, {});
    frame.body = std::move(content);
    return frame;
  }
  if (content.size() / sizeof(PartHead) < head.parts) throw ProtocolError("a frame of a controller is too short");
  std::exception_ptr error;
  for (std::uint32_t i = 0; i < head.parts; ++i) {
    PartHead part;
    std::memcpy(&part, content.data() + i * sizeof part, sizeof part);
    try {
      if (!error) frame.parts.push_back(made(memory, part));
    } catch (...) {
      error = std::current_exception();
    }
    if (!error) receive_bytes(frame.parts.back().data, part.bytes);
    else if (part.bytes > 0) discard();
  }
  if (error) std::rethrow_exception(error);
  check_rest(head, content, frame.parts);
  frame.body.assign(content.begin() + static_cast<std::ptrdiff_t>(head.parts * sizeof(PartHead)), content.end());
  return frame;
}

}  // namespace controller
}  // namespace unisono
