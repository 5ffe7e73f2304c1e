#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace unisono::schedule {

/// Temporary memory of a group's calls. It is kept from one call to the next, since the first touch of new memory costs more than using it.
class Scratch {
 public:
  /// Returns memory that is valid until `reset`, aligned to 64 bytes.
  std::byte* take(std::size_t bytes);
  void reset();

 private:
  std::vector<std::pair<std::unique_ptr<std::byte[]>, std::size_t>> blocks_;
  std::size_t block_ = 0, used_ = 0;
};

}  // namespace unisono::schedule
