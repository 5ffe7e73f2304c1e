// The memory into which parts of frames are received. A page that is new to a process may cost more than the copy of what comes into it, so memory
// that parts have let go of is kept for the next ones.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "unisono/detail/remote_call.h"

namespace unisono {
namespace {

constexpr std::align_val_t alignment{64};

/// What is kept, of all sizes together.
constexpr std::size_t most_kept = std::size_t{64} << 20;

/// Returns the size of the piece for so many bytes: an eighth more at most, so that parts of nearly the same length share one.
std::size_t capacity_of(std::size_t bytes) {
  constexpr std::size_t least = 4096;
  const std::size_t step = std::bit_floor(std::max(bytes, least)) / 8;
  return (std::max(bytes, least) + step - 1) / step * step;
}

class Pieces {
 public:
  /// Never destroyed: parts may be let go of while the process ends.
  static Pieces& kept() {
    static Pieces& instance = *new Pieces;
    return instance;
  }
  void* take(std::size_t capacity) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::ranges::find(pieces_, capacity, &std::pair<std::size_t, void*>::first);
      if (found != pieces_.end()) {
        void* const piece = found->second;
        pieces_.erase(found);
        bytes_ -= capacity;
        return piece;
      }
    }
    return ::operator new(capacity, alignment);
  }
  /// Those that were let go of first make room.
  void give_back(void* piece, std::size_t capacity) noexcept {
    try {
      if (capacity <= most_kept) {
        const std::lock_guard lock(mutex_);
        pieces_.emplace_back(capacity, piece);
        bytes_ += capacity;
        for (; bytes_ > most_kept; pieces_.erase(pieces_.begin())) {
          bytes_ -= pieces_.front().first;
          ::operator delete(pieces_.front().second, alignment);
        }
        return;
      }
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it is freed then
    }
    ::operator delete(piece, alignment);
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::size_t, void*>> pieces_;
  std::size_t bytes_ = 0;
};

}  // namespace

detail::FramePart detail::part_memory(std::uint32_t slot, std::size_t bytes) {
  const std::size_t capacity = capacity_of(bytes);
  void* const memory = Pieces::kept().take(capacity);
  return {.data = static_cast<std::byte*>(memory),
          .bytes = bytes,
          .owner = std::shared_ptr<void>(memory, [capacity](void* at) { Pieces::kept().give_back(at, capacity); }),
          .slot = slot};
}

}  // namespace unisono
