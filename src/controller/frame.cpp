#include "controller/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "base/deadline.h"
#include "group/progress/work_state.h"
#include "recorder/recorder.h"
#include "unisono/detail/object_stream.h"
#include "unisono/detail/request.h"
#include "unisono/error.h"

namespace unisono::controller {
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

std::vector<Piece> pieces_of(const std::vector<detail::FramePart>& parts) {
  std::vector<Piece> pieces;
  for (const auto& part : parts) pieces.emplace_back(part.data, part.bytes);
  return pieces;
}

bool is_under_way(const Work& work) {
  const detail::WorkState* const state = detail::WorkAccess::state_of(work);
  return state != nullptr && !state->is_done();
}

}  // namespace

void let_go(Work& receive) noexcept {
  for (;;) {
    try {
      if (!receive.cancel()) receive.wait();
      return;
    } catch (...) {  // an interruption ends the wait alone
      if (!is_under_way(receive)) return;
    }
  }
}

std::size_t bytes_of(const detail::Frame& frame) {
  std::size_t bytes = frame.body.size();
  for (const auto& part : frame.parts) bytes += part.bytes;
  return bytes;
}

void check_limit(const detail::Frame& frame, std::string_view what) {
  if (frame.parts.size() > most_parts) throw InvalidArgument(fmt::format("{} {} parts, and the most are {}", what, frame.parts.size(), most_parts));
  const std::size_t bytes = bytes_of(frame), limit = object_limits().bytes;
  if (bytes <= limit) return;
  throw InvalidArgument(fmt::format("{} {} bytes, and the limit is {}", what, bytes, limit), {.hint = "raise the limit with set_object_limits"});
}

FrameLink::FrameLink(ProcessGroup pair)
    : pair_(std::move(pair)),
      peer_(1 - pair_.rank()),
      sending_(detail::ObjectSeal::of_message(pair_.rank(), peer_, 0, pair_)),
      receiving_(detail::ObjectSeal::of_message(peer_, pair_.rank(), 0, pair_)) {}

void FrameLink::start_send(const void* data, std::size_t bytes, std::shared_ptr<void>& owner) {
  Work work = detail::start(message(Operation::send, data, bytes, peer_), pair_, for_as_long_as_it_takes());
  if (is_under_way(work)) outgoing_.push_back({std::move(work), std::move(owner)});
}

void FrameLink::sweep(std::vector<std::shared_ptr<const void>>& gone) {
  for (; !outgoing_.empty() && !is_under_way(outgoing_.front().work); outgoing_.pop_front()) gone.push_back(std::move(outgoing_.front().owner));
}

void FrameLink::seal(Head& head, Piece content, const std::vector<detail::FramePart>& parts) const {
  if (!sending_.is_needed()) return;
  head.number = sending_.take_number();
  if (head.has_content != 0) {
    const detail::ObjectCode code = sending_.code(head.number, detail::ObjectSeal::body, content);
    std::memcpy(head.inside.data(), &code, sizeof code);
  }
  if (!parts.empty()) head.of_parts = sending_.code(head.number, detail::ObjectSeal::body, pieces_of(parts));
  head.of_head = sending_.code(head.number, detail::ObjectSeal::head, head_to_seal(head));
}

void FrameLink::check(const Head& head) const {
  if (!receiving_.is_needed()) return;
  receiving_.check(peer_, head.number, detail::ObjectSeal::head, head_to_seal(head), head.of_head);
  receiving_.check_number(peer_, head.number);
}

void FrameLink::check_content(const Head& head, Piece content) const {
  if (!receiving_.is_needed() || head.has_content == 0) return;
  detail::ObjectCode code{};
  std::memcpy(&code, head.inside.data(), sizeof code);
  receiving_.check(peer_, head.number, detail::ObjectSeal::body, content, code);
}

void FrameLink::check_parts(const Head& head, const std::vector<detail::FramePart>& parts) const {
  if (!receiving_.is_needed() || parts.empty()) return;
  receiving_.check(peer_, head.number, detail::ObjectSeal::body, pieces_of(parts), head.of_parts);
}

void FrameLink::send(const Head& about, detail::Frame&& frame) {
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
  std::shared_ptr<void> owner = head;
  start_send(head.get(), sizeof *head, owner);
  owner = content;
  if (head->has_content != 0) start_send(bytes.data(), bytes.size(), owner);
  for (auto& part : frame.parts) start_send(part.data, part.bytes, part.owner);
}

Work FrameLink::start_receive(void* data, std::size_t bytes) {
  return detail::start(message(Operation::recv, data, bytes, peer_), pair_, for_as_long_as_it_takes());
}

void FrameLink::receive(Head& head) {
  std::vector<std::shared_ptr<const void>> gone;
  sweep(gone);
  gone.clear();
  if (outgoing_.empty()) {
    receive(&head, sizeof head);
  } else {
    Work next = start_receive(&head, sizeof head);
    try {
      for (; !outgoing_.empty() && is_under_way(next); sweep(gone), gone.clear()) {
        std::array both{next, outgoing_.front().work};
        wait_any(both);
      }
      next.wait();
    } catch (...) {
      let_go(next);
      throw;
    }
  }
  check(head);
}

void FrameLink::receive(void* data, std::size_t bytes) {
  detail::run(message(Operation::recv, data, bytes, peer_), pair_, for_as_long_as_it_takes());
}

/// A receive of another length throws the message away.
void FrameLink::discard() {
  try {
    receive(nullptr, 0);
  } catch (const Mismatch&) {  // NOLINT(bugprone-empty-catch): that is its length
  }
}

bool FrameLink::has_come() {
  std::vector<std::shared_ptr<const void>> gone;
  sweep(gone);
  return detail::probe(message(Operation::recv, nullptr, 0, peer_), pair_, for_as_long_as_it_takes(), false).has_value();
}

}  // namespace unisono::controller
