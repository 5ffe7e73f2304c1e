#include "controller/incoming.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "unisono/detail/object_stream.h"
#include "unisono/error.h"

namespace unisono::controller {
namespace {

std::uint64_t bytes_of_heads(const Head& head) { return head.parts * sizeof(PartHead); }

[[noreturn]] void refuse(std::uint64_t bytes) {
  throw InvalidArgument(fmt::format("{} bytes have come, and the limit is {} here", bytes, object_limits().bytes),
                        {.hint = "raise the limit with set_object_limits in all processes"});
}

void check_sizes(const Head& head) {
  if (head.content < bytes_of_heads(head)) throw ProtocolError("a frame of a controller is too short");
  if (head.has_content == 0 && head.content > Head::room) throw ProtocolError("a frame of a controller is longer than its head");
}

/// Throws InvalidArgument for parts that are above the limit together.
void check_parts(const Head& head, std::span<const PartHead> parts) {
  const std::uint64_t limit = object_limits().bytes;
  std::uint64_t bytes = head.content - bytes_of_heads(head);
  for (const PartHead& part : parts) {
    if (part.bytes > limit - bytes) refuse(part.bytes);
    bytes += part.bytes;
  }
}

detail::FramePart made(const detail::PartMemory& memory, const PartHead& part) {
  if (!memory) return detail::part_memory(part.slot, part.bytes);
  detail::FramePart own = memory(part.slot, part.bytes);
  if (own.bytes == part.bytes) return own;
  throw InvalidArgument(fmt::format("the memory for part {} has {} bytes instead of {}", part.slot, own.bytes, part.bytes));
}

}  // namespace

Incoming::Incoming(FrameLink& link, const Head& head, Receives receives) : link_(link), head_(head), how_(receives) {
  check_sizes(head_);
  try {
    if (head_.content - bytes_of_heads(head_) > object_limits().bytes) refuse(head_.content);
    if (head_.parts > most_parts) throw InvalidArgument(fmt::format("a frame has {} parts, and the most are {}", head_.parts, most_parts));
    content_.resize(head_.content);
  } catch (...) {
    error_ = std::current_exception();
  }
  if (head_.has_content != 0) receive(content_.data(), content_.size());
  else std::copy_n(head_.inside.begin(), content_.size(), content_.begin());
}

Incoming::~Incoming() {
  for (Work& receive : receives_) let_go(receive);
}

void Incoming::receive(void* data, std::size_t bytes) {
  if (how_ == Receives::start) receives_.push_back(error_ ? link_.start_receive(nullptr, 0) : link_.start_receive(data, bytes));
  else if (error_) link_.discard();
  else link_.receive(data, bytes);
}

detail::WorkState* Incoming::awaited() {
  for (; !receives_.empty(); receives_.pop_front()) {
    detail::WorkState* const state = detail::WorkAccess::state_of(receives_.front());
    if (state != nullptr && !state->is_done()) return state;
    try {
      receives_.front().wait();
    } catch (const Mismatch&) {
      if (!error_) throw;  // else it was thrown away
    }
  }
  return nullptr;
}

void Incoming::open(const detail::PartMemory& memory) {
  is_open_ = true;
  if (error_) return;
  link_.check_content(head_, content_);
  try {
    make_memory(memory);
  } catch (...) {
    error_ = std::current_exception();
    parts_.clear();
  }
}

void Incoming::make_memory(const detail::PartMemory& memory) {
  std::vector<PartHead> heads(head_.parts);
  if (heads.empty()) return;
  std::memcpy(heads.data(), content_.data(), heads.size() * sizeof(PartHead));
  check_parts(head_, heads);
  for (const PartHead& part : heads) parts_.push_back(made(memory, part));
}

void Incoming::start_parts() {
  for (std::uint32_t i = 0; i < head_.parts; ++i) receive(error_ ? nullptr : parts_[i].data, error_ ? 0 : parts_[i].bytes);
}

void Incoming::check() const {
  if (!error_) link_.check_parts(head_, parts_);
}

detail::Frame Incoming::take() {
  content_.erase(content_.begin(), content_.begin() + static_cast<std::ptrdiff_t>(bytes_of_heads(head_)));
  return {.body = std::move(content_), .parts = std::move(parts_)};
}

}  // namespace unisono::controller
