#pragma once

#include <cstddef>
#include <limits>
#include <memory_resource>
#include <new>
#include <vector>

#include "unisono/export.h"

// Memory that the other ranks of this host can reach.
//
// A buffer is an ordinary one wherever it lies. If all ranks' buffers of a large call lie in this
// memory, they are read and written in place, and copied no second time.
//
// ```cpp
// unisono::shared_vector<float> gradients(n);
// unisono::all_reduce(gradients);
// ```

namespace unisono {

/// Returns the pool of this process, which is made at the first call, before or after initialize.
/// Never null; any thread may use it.
///
/// It gives ordinary memory if the system grants no shared memory, and once the pool is full. A
/// child of fork starts without a pool and must not touch memory that its parent had there.
UNISONO_API std::pmr::memory_resource* shared_resource();

/// Tells whether all of these bytes lie in the pool of this process.
[[nodiscard]] UNISONO_API bool is_shared(const void* memory, std::size_t bytes) noexcept;

/// Allocates from shared_resource(), aligned to cache lines, for standard containers. All
/// allocators of this kind are equal.
template <class T>
class SharedAllocator {
 public:
  using value_type = T;

  SharedAllocator() noexcept = default;
  template <class U>
  SharedAllocator(const SharedAllocator<U>&) noexcept {}  // NOLINT(google-explicit-constructor): containers convert allocators

  /// Allocates room for `n` objects. Throws std::bad_alloc as std::allocator does.
  [[nodiscard]] T* allocate(std::size_t n) {
    if (n > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(shared_resource()->allocate(n * sizeof(T), alignment));
  }
  /// Gives back what `allocate` returned for the same `n`.
  void deallocate(T* memory, std::size_t n) noexcept { shared_resource()->deallocate(memory, n * sizeof(T), alignment); }

  template <class U>
  friend bool operator==(const SharedAllocator&, const SharedAllocator<U>&) noexcept {
    return true;
  }

 private:
  static constexpr std::size_t alignment = alignof(T) > 64 ? alignof(T) : 64;
};

/// A std::vector whose elements the other ranks of this host can reach.
template <class T>
using shared_vector = std::vector<T, SharedAllocator<T>>;

}  // namespace unisono
