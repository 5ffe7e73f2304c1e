#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "trace/merge.h"

namespace unisono::tools {

/// The kinds of calls: what calls have in common, so that a page says it once. A kind is an operation with its group, dtype, bytes, place and peer.
class PageKinds {
 public:
  PageKinds(const JobTrace& trace, const Merge& merge);

  std::size_t index_of(const Slice& slice);
  /// Returns each kind as JSON.
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  using Key = std::tuple<std::uint64_t, std::uint16_t, std::uint16_t, std::uint8_t, std::uint8_t, std::uint8_t, int>;

  std::string text_of(const Slice& slice) const;

  const JobTrace& trace_;
  const Merge& merge_;
  std::size_t rank_ = SIZE_MAX;
  std::map<Key, std::size_t> of_rank_;  // by the numbers that this rank has for its texts
  std::map<std::string, std::size_t> indices_;
  std::vector<std::string> texts_;
};

}  // namespace unisono::tools
