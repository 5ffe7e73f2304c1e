#include "coordination/early_mail.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/bytes.h"
#include "transport/tcp/frame.h"
#include "unisono/error.h"

namespace unisono::coordination {
namespace {

// A message: the number of the call, the place of its bytes, and the number of all; then the bytes.
constexpr std::size_t early_head_bytes = transport::call_head_size;
using EarlyHead = std::array<std::byte, early_head_bytes>;

std::uint64_t word_at(const std::string& message, std::size_t index) {
  return base::load_little_endian<std::uint64_t>(reinterpret_cast<const std::byte*>(message.data()) + index * sizeof(std::uint64_t));
}

}  // namespace

std::span<const std::byte> EarlyMail::Part::bytes() const { return std::as_bytes(std::span(message)).subspan(early_head_bytes); }

void EarlyMail::post_part(int rank, std::uint64_t call, std::size_t offset, std::size_t total, std::span<const std::byte> bytes) {
  EarlyHead head{};
  std::byte* to = head.data();
  for (const std::uint64_t word : {call, static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(total)}) {
    base::store_little_endian(word, to);
    to += sizeof word;
  }
  route_.mail->post((*route_.global_ranks)[static_cast<std::size_t>(rank)], route_.group, head, bytes);
}

void EarlyMail::post(int rank, std::uint64_t call, std::span<const std::byte> bytes) {
  std::size_t offset = 0;
  do {
    const auto part = bytes.subspan(offset, std::min(longest_part, bytes.size() - offset));
    post_part(rank, call, offset, bytes.size(), part);
    offset += part.size();
  } while (offset < bytes.size());
}

void EarlyMail::expect(std::uint64_t call, std::vector<int> ranks) {
  call_ = call;
  expected_ = std::move(ranks);
  parts_.clear();
}

/// Takes the next message of a rank. Those of earlier calls are left over where ranks have differed.
bool EarlyMail::take(int rank) {
  std::string message;
  if (const auto kept = later_.find(rank); kept != later_.end()) {
    message = std::move(kept->second);
    later_.erase(kept);
  } else if (!route_.mail->take((*route_.global_ranks)[static_cast<std::size_t>(rank)], route_.group, message)) {
    return false;
  }
  if (message.size() < early_head_bytes) throw ProtocolError(fmt::format("rank {} sent a message of {} bytes ahead of a call", rank, message.size()));
  const std::uint64_t call = word_at(message, 0);
  if (call > call_) {
    later_[rank] = std::move(message);
    return false;
  }
  if (call == call_) {
    const std::size_t offset = word_at(message, 1), total = word_at(message, 2);
    parts_.push_back({.from = rank, .offset = offset, .total = total, .message = std::move(message)});
  }
  return true;
}

bool EarlyMail::fetch() {
  for (const int rank : expected_) {
    while (take(rank)) continue;
  }
  return !parts_.empty();
}

bool EarlyMail::next(Part& part) {
  if (parts_.empty() && !fetch()) return false;
  part = std::move(parts_.front());
  parts_.pop_front();
  return true;
}

void EarlyMail::drop_before(std::uint64_t call) {
  expect(call - 1, {});
  for (const int rank : peers_) {
    while (take(rank)) parts_.clear();
  }
}

}  // namespace unisono::coordination
