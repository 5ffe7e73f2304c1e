#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <string>

#include "base/file_descriptor.h"

namespace unisono::base {

/// A memory resource over a memory file that other processes of this host can map as well. Pages cost nothing until they are touched, and are
/// returned to the system when their block is freed.
class SharedPool final : public std::pmr::memory_resource {
 public:
  /// Returns null where the system grants no memory. `most`: bytes of address space.
  static std::unique_ptr<SharedPool> make(std::size_t most);
  ~SharedPool() override;

  /// Returns the offset of memory in the pool; nullopt where some of it lies outside.
  std::optional<std::uint64_t> offset_of(const void* memory, std::size_t bytes) const noexcept {
    const auto offset = reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(base_);
    if (offset > size_ || bytes > size_ - offset) return std::nullopt;
    return offset;
  }
  std::byte* base() const noexcept { return base_; }
  std::size_t size() const noexcept { return size_; }
  int descriptor() const noexcept { return file_.get(); }
  std::uint64_t inode() const noexcept { return inode_; }  ///< of the memory file; no other file on this host has it during the pool's lifetime
  std::size_t allocated() const;

 private:
  SharedPool(FileDescriptor file, std::byte* base, std::size_t size, std::uint64_t inode);
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  FileDescriptor file_;
  std::byte* base_;
  std::size_t size_;
  std::uint64_t inode_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes; neighbours are joined
};

/// Returns the pool of this process if shared_resource() has made one, else null; null in a child of fork.
const SharedPool* shared_pool() noexcept;

/// The pool of another process, mapped for reading. A child of fork inherits the mapping, so that no other memory has these addresses there.
class MappedPool {
 public:
  /// Returns one shared mapping while anybody keeps it. Null where the pool cannot be reached, has been replaced by another one, or would leave too
  /// little of the address space.
  static std::shared_ptr<const MappedPool> map(int pid, int descriptor, std::uint64_t inode, std::size_t size);
  ~MappedPool();
  MappedPool(const MappedPool&) = delete;
  MappedPool& operator=(const MappedPool&) = delete;
  const std::byte* base() const noexcept { return base_; }
  std::size_t size() const noexcept { return size_; }

 private:
  MappedPool(std::byte* base, std::size_t size) : base_(base), size_(size) {}
  std::byte* base_;
  std::size_t size_;
};

}  // namespace unisono::base
