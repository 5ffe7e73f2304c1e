#include "schedule/scratch.h"

#include <algorithm>
#include <cstdint>

namespace unisono::schedule {

std::byte* Scratch::take(std::size_t bytes) {
  constexpr std::size_t least = std::size_t{64} << 10;
  constexpr std::size_t line = 64;
  bytes = (bytes + line - 1) / line * line;
  for (; block_ < blocks_.size(); ++block_, used_ = 0) {
    if (used_ + bytes + line <= blocks_[block_].second) break;
  }
  if (block_ == blocks_.size()) {
    const std::size_t size = std::max(bytes + line, least);
    blocks_.emplace_back(new std::byte[size], size);
    used_ = 0;
  }
  std::byte* const free = blocks_[block_].first.get() + used_;
  const std::size_t beyond_line = reinterpret_cast<std::uintptr_t>(free) % line;
  std::byte* const aligned = beyond_line == 0 ? free : free + (line - beyond_line);
  used_ = static_cast<std::size_t>(aligned - blocks_[block_].first.get()) + bytes;
  return aligned;
}

void Scratch::reset() {
  // Many pieces, or the memory of one enormous call, are not worth keeping.
  constexpr std::size_t most = std::size_t{256} << 20, most_blocks = 4;
  std::size_t total = 0;
  for (const auto& block : blocks_) total += block.second;
  if (blocks_.size() > most_blocks || total > most) blocks_.clear();
  block_ = used_ = 0;
}

}  // namespace unisono::schedule
