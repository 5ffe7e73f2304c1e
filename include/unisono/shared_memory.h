#pragma once

#include <cstddef>
#include <limits>
#include <memory_resource>
#include <new>
#include <vector>

#include "unisono/export.h"

// Memory that the other ranks of this host can reach. A buffer is an ordinary one wherever it lies; where all ranks' buffers of a large call lie
// here, they are read and written in place, without copies in between.

namespace unisono {

/// The pool of this process: one, made at the first allocation, before or after initialize; never null. Thread-safe. Where the system grants no
/// shared memory, and where the pool is full, memory is ordinary. A child of fork starts without one: what its parent had there it must not touch.
UNISONO_API std::pmr::memory_resource* shared_resource();
/// Whether all of these bytes lie in the pool of this process.
[[nodiscard]] UNISONO_API bool is_shared(const void* memory, std::size_t bytes) noexcept;

/// Allocates from shared_resource(), on cache lines. All of them are alike.
template <class T>
class SharedAllocator {
 public:
  using value_type = T;

  SharedAllocator() noexcept = default;
  template <class U>
  SharedAllocator(const SharedAllocator<U>&) noexcept {}  // NOLINT(google-explicit-constructor): containers convert allocators

  [[nodiscard]] T* allocate(std::size_t n) {
    if (n > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(shared_resource()->allocate(n * sizeof(T), alignment));
  }
  void deallocate(T* memory, std::size_t n) noexcept { shared_resource()->deallocate(memory, n * sizeof(T), alignment); }

  template <class U>
  friend bool operator==(const SharedAllocator&, const SharedAllocator<U>&) noexcept {
    return true;
  }

 private:
  static constexpr std::size_t alignment = alignof(T) > 64 ? alignof(T) : 64;
};

template <class T>
using shared_vector = std::vector<T, SharedAllocator<T>>;

}  // namespace unisono
